package api

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Size limits of the calls that a caller without credentials may make.
const (
	maxHealthBytes = 1 << 10
	// Over gRPC the token of a report is for a key inside the message, so it cannot be
	// checked before. 64 KiB of output and of a result, and 16 KiB for everything else.
	maxReportBytes = schedule.MaxReportedOutput + schedule.MaxResult + 16<<10
)

// Size limits of a report over REST: of callers who have not shown the run's
// token, and of those who have. JSON needs up to six bytes for one of the output,
// and output that is too long is cut only here.
const (
	maxReportBody       = 65 << 10
	maxReportBodyProved = 2 << 20
)

// ownSize holds the calls with a separate limit. gRPC has one limit per server, here
// schedule.MaxApplyBytes.
var ownSize = map[string]int{
	"/grpc.health.v1.Health/Check":                 maxHealthBytes,
	"/grpc.health.v1.Health/List":                  maxHealthBytes,
	"/grpc.health.v1.Health/Watch":                 maxHealthBytes,
	carillonv1.RunService_ReportRun_FullMethodName: maxReportBytes,
}

// frames is the part of the transport's stream that this package uses. The library checks message
// sizes against one limit per server, so the calls in ownSize read the length prefix themselves.
// The type is internal to grpc-go; TestEveryAnonymousCallHasASizeLimit fails if an upgrade
// renames a method.
type frames interface {
	RecvCompress() string
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// boundMessages refuses compressed requests and messages above the limit of their call. It runs
// before credentials are checked and before any byte of a message is read: a gzip message of 8 kB
// can unpack to the server's largest message. The library would unpack it, because another package
// in the process registers gzip for its client.
func boundMessages(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	wire, ok := grpc.ServerTransportStreamFromContext(ss.Context()).(frames)
	if !ok {
		return status.Error(codes.Internal, "this transport does not show the size of messages")
	}
	if name := wire.RecvCompress(); name != "" && name != encoding.Identity {
		return status.Errorf(codes.Unimplemented, "grpc-encoding %.40q: compressed requests are not accepted; use grpc-encoding identity", name)
	}
	if limit, found := ownSize[call.FullMethod]; found {
		ss = &bounded{ServerStream: ss, wire: wire, limit: limit, method: call.FullMethod}
	}
	return next(srv, ss)
}

// bounded reads the one request message of a call with the limit of that call.
type bounded struct {
	grpc.ServerStream
	wire   frames
	limit  int
	method string
}

// allowed is the limit for this caller. A report has another one where the caller
// is known already, and where the gateway has held its body to one.
func (b *bounded) allowed() int {
	if b.method != carillonv1.RunService_ReportRun_FullMethodName {
		return b.limit
	}
	call := auth.CallFrom(b.Context())
	if insideProcess(b.Context()) || call != nil && !stranger(call.Identity, codes.Unauthenticated) {
		return maxReportBodyProved
	}
	return b.limit
}

func (b *bounded) RecvMsg(m any) error {
	length, err := b.header()
	switch {
	case errors.Is(err, io.EOF):
		return status.Error(codes.InvalidArgument, "the call has no request message")
	case err != nil:
		return b.broken(err)
	}
	body, err := b.wire.Read(length)
	if err != nil {
		return b.broken(err)
	}
	defer body.Free()
	if err := encoding.GetCodecV2(protocodec.Name).Unmarshal(body, m); err != nil {
		return status.Error(codes.InvalidArgument, "the request message is not valid protobuf")
	}
	switch _, err := b.header(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return b.broken(err)
	}
	return status.Error(codes.InvalidArgument, "the call has more than one request message")
}

// header reads a message's prefix: one byte that marks compression, and the
// length in four bytes. It refuses before the message itself is read.
func (b *bounded) header() (length int, err error) {
	var prefix [5]byte
	if err := b.wire.ReadMessageHeader(prefix[:]); err != nil {
		return 0, err
	}
	if prefix[0] != 0 {
		return 0, status.Error(codes.InvalidArgument, "the message is marked as compressed and the call names no grpc-encoding")
	}
	n := uint32(prefix[1])<<24 | uint32(prefix[2])<<16 | uint32(prefix[3])<<8 | uint32(prefix[4])
	if limit := b.allowed(); uint64(n) > uint64(limit) {
		return 0, status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than %d", n, limit)
	}
	return int(n), nil
}

// broken makes a status of a transport error.
func (b *bounded) broken(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if cause := b.Context().Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.InvalidArgument, "the request message ends before its announced length")
	}
	return status.FromContextError(context.Canceled).Err()
}
