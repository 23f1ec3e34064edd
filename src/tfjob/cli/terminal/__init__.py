"""What a terminal shows while something happens: attached runs, the live panel, `ps -w`.

In: snapshots of jobs and lines. Out: text on the terminal, never faster than it is read. Start reading at
`attach`; `screen` decides when to paint, `panel` what.
"""
