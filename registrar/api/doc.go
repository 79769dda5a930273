// Package api is the door to steps 1 and 6 of a slot's life: carillon.v1 over
// gRPC, and the same calls over REST. It translates between the wire and the
// registrar and refuses what is malformed; what a value means is the
// registrar's to judge.
//
// A REST call becomes a gRPC call inside the process, so that every
// interceptor sees each request once, whichever way it came. JSON follows one
// convention (internal/rawjson): names as in the protos, unset fields shown,
// unknown and repeated fields refused, and every `bytes` field is raw JSON
// that passes through unchanged.
package api
