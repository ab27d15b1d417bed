module berth.dev/clients/place

go 1.22

require (
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240814211410-ddb44dafa142
	google.golang.org/grpc v1.66.0
	google.golang.org/protobuf v1.34.2
)
