"""UAIP 0.1 on the wire: requests, replies and errors of the stage-workflow protocol.

The specification counts; what it leaves open follows the first UAIP server, or is an addition that its clients ignore.
"""
