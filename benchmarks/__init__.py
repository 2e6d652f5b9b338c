"""Speed, measured: one module per question, peers side by side in one run, reported as ratios."""
