"""What the protocol compiler makes of `protos/uamp.proto`: messages (`uamp_pb2`) and the service for grpclib (`uamp_grpc`).

Nothing here is written by hand. A test makes both anew and compares; it says how when they differ.
"""
