package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillon/carillon/internal/schedule"
)

// The ErrorInfo reasons that distinguish errors with one gRPC code.
const (
	errorDomain = "carillon"
	// ReasonKeyConflict marks the ALREADY_EXISTS that REST answers as 422: the
	// idempotency key was used before for another request.
	ReasonKeyConflict = "KEY_CONFLICT"
	// ReasonRunIDMismatch marks the FAILED_PRECONDITION of a report that names
	// another run_id than the recorded one.
	ReasonRunIDMismatch = "RUN_ID_MISMATCH"
	// ReasonUnpayable marks the FAILED_PRECONDITION that REST answers as 402: the
	// billing account cannot pay for the schedule's model.
	ReasonUnpayable = "UNPAYABLE"
	// ReasonStale marks the ABORTED that REST answers as 412: the schedule has
	// another revision than the request names.
	ReasonStale = "REVISION_MISMATCH"
)

// codeOf maps every sentinel; the first that fits counts.
var codeOf = []struct {
	err    error
	code   codes.Code
	reason string // ErrorInfo; empty: the code suffices
}{
	{schedule.ErrNotFound, codes.NotFound, ""},
	{schedule.ErrExists, codes.AlreadyExists, ""},
	{schedule.ErrKeyConflict, codes.AlreadyExists, ReasonKeyConflict},
	{schedule.ErrRepeated, codes.AlreadyExists, ""},
	{schedule.ErrPrecondition, codes.FailedPrecondition, ""},
	{schedule.ErrRunIDMismatch, codes.FailedPrecondition, ReasonRunIDMismatch},
	{schedule.ErrUnpayable, codes.FailedPrecondition, ReasonUnpayable},
	{schedule.ErrUnauthenticated, codes.Unauthenticated, ""},
	{schedule.ErrForbidden, codes.PermissionDenied, ""},
	{schedule.ErrExhausted, codes.ResourceExhausted, ""},
	{schedule.ErrFenced, codes.Unavailable, ""},
	{schedule.ErrUnavailable, codes.Unavailable, ""},
	{schedule.ErrUnsupported, codes.Unimplemented, ""},
	{schedule.ErrShardCount, codes.FailedPrecondition, ""},
	{schedule.ErrBusy, codes.Aborted, ""},
	{schedule.ErrStale, codes.Aborted, ReasonStale},
	{schedule.ErrMoveStale, codes.Aborted, ""},
	{schedule.ErrQueueAway, codes.Unavailable, ""},
	{schedule.ErrWithheld, codes.Unavailable, ""},
	{context.Canceled, codes.Canceled, ""},
	{context.DeadlineExceeded, codes.DeadlineExceeded, ""},
}

// statusOf is the status that a client sees for an error. An unexpected error becomes INTERNAL
// without its text, which may hold secrets.
func statusOf(err error) *status.Status {
	var invalid *schedule.InvalidError
	if errors.As(err, &invalid) {
		return refusal(invalid)
	}
	for _, known := range codeOf {
		if errors.Is(err, known.err) {
			st := status.New(known.code, err.Error())
			if known.code == codes.DeadlineExceeded { // ours: a caller past its deadline reads no answer
				return status.New(known.code, "deadline exceeded: the database did not answer in time; try again")
			}
			var later *schedule.LaterError
			if errors.As(err, &later) {
				return detailed(st, &errdetails.RetryInfo{RetryDelay: durationpb.New(later.Wait)})
			}
			if known.reason == "" {
				return st
			}
			return detailed(st, &errdetails.ErrorInfo{Reason: known.reason, Domain: errorDomain})
		}
	}
	if st, ok := status.FromError(err); ok {
		return st
	}
	if storeAway(err) {
		return status.New(codes.Unavailable, "the database is unavailable or read-only; try again")
	}
	return status.New(codes.Internal, "internal error; see the server log")
}

// CodeOf is the code that a client sees of an error; OK for nil.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return statusOf(err).Code()
}

// storeAway reports whether a store could not be reached, for all drivers: a broken connection, or
// a SQLSTATE of the classes 08 (connection), 53 (resources) and 57 (shut down, starting, timed
// out), and 25006 (read only: a standby, or a primary about to become one).
func storeAway(err error) bool {
	var network net.Error
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) {
		state := refused.SQLState()
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57") || state == "25006"
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// refusal is INVALID_ARGUMENT with one field violation for each field.
func refusal(invalid *schedule.InvalidError) *status.Status {
	bad := &errdetails.BadRequest{}
	for _, v := range invalid.Violations[:min(len(invalid.Violations), maxViolations)] {
		description := v.Problem
		if v.Hint != "" {
			description += "; " + v.Hint
		}
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: schedule.Storable(v.Field, maxText), Description: schedule.Storable(description, maxText),
		})
	}
	if len(invalid.Violations) > maxViolations { // otherwise the list looks complete
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: "…", Description: fmt.Sprintf("more fields are invalid; these are the first %d", maxViolations),
		})
	}
	return detailed(status.New(codes.InvalidArgument, schedule.Storable(invalid.Error(), maxText)), bad)
}

// Limits of an answer, independent of the size of the request.
const (
	maxViolations = 20
	maxText       = 1024
)

func detailed(st *status.Status, detail protoadapt.MessageV1) *status.Status {
	with, err := st.WithDetails(detail)
	if err != nil {
		return st // the message still has it
	}
	return with
}

// answerErrors turns errors of the servers into statuses, and logs unexpected ones.
func answerErrors(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		err := next(srv, ss)
		if err == nil {
			return nil
		}
		st := statusOf(err)
		if st.Code() == codes.Internal || st.Code() == codes.Unknown {
			log.ErrorContext(ss.Context(), "call failed", "method", call.FullMethod, "err", err)
		}
		return st.Err()
	}
}
