package grpcexecutor

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Probe calls the standard health service, which starts nothing. UNIMPLEMENTED
// also proves that the executor answers.
func (e *Executor) Probe(ctx context.Context) (says string, err error) {
	resp, err := grpc_health_v1.NewHealthClient(e.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	switch code := status.Code(err); {
	case code == codes.OK && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
		return "", fmt.Errorf("%s answers that it is NOT_SERVING", e.cfg.Target)
	case code == codes.OK:
		return fmt.Sprintf("%s answers that it is %s", e.cfg.Target, resp.GetStatus()), nil
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Internal, code == codes.Unknown:
		return "", err
	default:
		return fmt.Sprintf("%s answers; its health check says %s", e.cfg.Target, code), nil
	}
}
