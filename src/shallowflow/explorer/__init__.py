"""The interactive page: drag a data point, watch the network learn. Needs the extra `explorer`."""
