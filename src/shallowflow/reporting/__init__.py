"""How results are shown: figures drawn by matplotlib, the report page, tables in a terminal."""
