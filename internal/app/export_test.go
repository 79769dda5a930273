package app

// For tests of what stands before every call.
var (
	Guard         = guard
	NewHTTPServer = newHTTPServer
	GRPCLimits    = grpcLimits
)
