// Package api serves steps 1 and 6 of a slot's life: carillon.v1 over gRPC and REST. It translates
// between the wire and the registrar and refuses malformed requests; the registrar checks the
// meaning of values.
//
// A REST call becomes a gRPC call inside the process, so that every interceptor sees each request
// once. JSON follows one convention (internal/rawjson): names as in the protos, unset fields
// shown, unknown and repeated fields refused, and `bytes` fields are raw JSON that is passed on
// unchanged.
package api
