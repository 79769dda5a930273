package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// validateRequests refuses every request that breaks a rule written in the
// protos, before anything sees it.
func validateRequests() (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	unary := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if m, ok := req.(proto.Message); ok {
			if err := validate(m, ""); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if call.FullMethod == carillonv1.RunLauncher_StartBatch_FullMethodName {
			return next(srv, ss) // its starts are answered each by itself: see Check
		}
		return next(srv, validatedStream{ss})
	}
	return unary, stream
}

// Check is the status of an invalid message, for batches in which only that message is refused.
func Check(m proto.Message) error {
	if err := validate(m, ""); err != nil {
		return statusOf(err).Err()
	}
	return nil
}

type validatedStream struct{ grpc.ServerStream }

func (s validatedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if m, ok := m.(proto.Message); ok {
		return validate(m, "")
	}
	return nil
}

// validate is nil or an *schedule.InvalidError with all invalid fields, each with prefix.
func validate(m proto.Message, prefix string) error {
	var c schedule.Collect
	checkValues(&c, m.ProtoReflect(), prefix)
	if err := c.Err(); err != nil {
		return err // rules cannot be computed on times that are none
	}
	err := protovalidate.Validate(m)
	var broken *protovalidate.ValidationError
	if err != nil && !errors.As(err, &broken) {
		return fmt.Errorf("validate %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	if err == nil {
		return nil
	}
	seen := make(map[string]bool)
	for _, v := range broken.Violations {
		// Only the first broken rule of a field is reported.
		if field := prefix + protovalidate.FieldPathString(v.Proto.GetField()); !seen[field] {
			seen[field] = true
			problem, hint := described(v)
			c.Note(field, problem, hint)
		}
	}
	return c.Err()
}

// described explains which value broke which rule, and what to write instead.
func described(v *protovalidate.Violation) (problem, hint string) {
	rule := v.Proto.GetRuleId()
	switch {
	case rule == "required", rule == "string.pattern" && v.FieldValue.String() == "":
		return "is required", ""
	case rule == "string.pattern":
		if fd := v.FieldDescriptor; fd != nil && fd.Name() == "user_id" {
			return quoted(v) + " is not a valid owner id", schedule.OwnerHint
		} else if fd != nil && fd.FullName() == "carillon.v1.SetLimitKeyRequest.key" {
			return quoted(v) + " is not a valid key", schedule.LimitKeyHint
		} else if fd != nil && fd.FullName() == "carillon.v1.UniqueKey.key" {
			return quoted(v) + " is not a valid key", schedule.UniqueKeyHint
		} else if fd == nil && v.RuleValue.String() == "^[0-9a-f]{64}$" { // an item of a list has no descriptor
			return quoted(v) + " is not a valid key", "give the 64 hex digits that the API shows, in lower case"
		}
		return quoted(v) + " is not a valid id", idHint(v.FieldDescriptor)
	case rule == "string.max_bytes" || rule == "bytes.max_len":
		return fmt.Sprintf("has %d bytes, more than %d", length(v.FieldValue), v.RuleValue.Uint()), ""
	case strings.HasPrefix(rule, "timestamp."):
		return quoted(v) + " is outside 1970 to 2099", ""
	case rule == "string.min_len":
		return "is empty", "leave it out for the default"
	}
	if fd := v.FieldDescriptor; fd != nil {
		hint = leaveOut[fd.FullName()]
	}
	return quoted(v) + " " + strings.TrimPrefix(v.Proto.GetMessage(), "value "), hint
}

// leaveOut are the hints of fields with a default that no value means.
var leaveOut = map[protoreflect.FullName]string{
	"carillon.v1.QueueExpectation.wait_within_ms": "leave it out to promise nothing about waits",
	"carillon.v1.EnqueueRunRequest.expires_ms":    "leave it out for that of the schedule or the queue",
	"carillon.v1.NewQueuedRun.expires_ms":         "leave it out for that of the schedule or the queue",
}

func idHint(fd protoreflect.FieldDescriptor) string {
	if fd != nil && fd.Name() == "idempotency_key" {
		return "give the 64 hex digits that the API shows, or at least the first 4 (a report needs all)"
	}
	if fd != nil && fd.Name() == "reservation_id" {
		return "give the 64 hex digits of the answer to ReserveSlot"
	}
	return schedule.IDHint
}

func length(v protoreflect.Value) int {
	switch x := v.Interface().(type) {
	case string:
		return len(x)
	case []byte:
		return len(x)
	}
	return 0
}

func quoted(v *protovalidate.Violation) string {
	switch x := v.FieldValue.Interface().(type) {
	case protoreflect.Message:
		if t, ok := x.Interface().(*timestamppb.Timestamp); ok {
			return t.AsTime().Format(time.RFC3339Nano)
		}
		return "this"
	case protoreflect.Map:
		return fmt.Sprintf("%d entries:", x.Len())
	case protoreflect.List:
		return fmt.Sprintf("%d values:", x.Len())
	case nil:
		return `""`
	default:
		return schedule.Quote(x)
	}
}

// checkValues enforces rules that a proto cannot express: text that Postgres cannot store, invalid
// times, raw members that are not JSON.
func checkValues(c *schedule.Collect, m protoreflect.Message, prefix string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		field := prefix + string(fd.Name())
		switch {
		case leftOut[fd.FullName()]:
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				at := field + "[" + schedule.Quote(k.String()) + "]"
				checkValue(c, fd.MapKey(), k.Value(), at)
				checkValue(c, fd.MapValue(), v, at)
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				checkValue(c, fd, v.List().Get(i), fmt.Sprintf("%s[%d]", field, i))
			}
		default:
			checkValue(c, fd, v, field)
		}
		return true
	})
}

// cleaned are the members of a report that are cleaned instead of refused: the end
// of the run matters more.
var cleaned = map[protoreflect.Name]bool{"error_message": true, "output": true, "log_url": true}

// leftOut are the members of a report that package result checks: the end of the run is kept without
// them.
var leftOut = map[protoreflect.FullName]bool{"carillon.v1.ReportRunRequest.result": true, "carillon.v1.ReportRunRequest.artifacts": true}

func checkValue(c *schedule.Collect, fd protoreflect.FieldDescriptor, v protoreflect.Value, field string) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if strings.ContainsRune(v.String(), 0) && !cleaned[fd.Name()] {
			c.Add(field, v.String(), "contains the NUL character", "leave it out")
		}
	case protoreflect.BytesKind:
		checkRaw(c, fd, v.Bytes(), field)
	case protoreflect.MessageKind:
		t, isTime := v.Message().Interface().(*timestamppb.Timestamp)
		if !isTime {
			checkValues(c, v.Message(), field+".")
		} else if err := t.CheckValid(); err != nil {
			c.Note(field, "is not a time: "+err.Error(), "")
		}
	}
}

func checkRaw(c *schedule.Collect, fd protoreflect.FieldDescriptor, raw []byte, field string) {
	limit := schedule.MaxInputBytes
	if fd.Name() == "dag" {
		limit = schedule.MaxDAGBytes
	}
	if len(raw) == 0 || len(raw) > limit {
		return // none, or the proto's rule refuses it
	}
	if problem := rawjson.Problem(raw, schedule.MaxJSONDepth); problem != "" {
		c.Note(field, problem, "")
	}
}
