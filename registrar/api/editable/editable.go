// Package editable turns a schedule as the API shows it into the request that
// defines it. It has no part in a slot's life: registrar and client edit with it.
package editable

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Definition is the upsert that changes nothing of a schedule. It goes by
// the names of fields, so that a new field of both messages is included. paused
// is set too.
func Definition(s *carillonv1.Schedule) *carillonv1.UpsertScheduleRequest {
	req := &carillonv1.UpsertScheduleRequest{}
	from, to := s.ProtoReflect(), req.ProtoReflect()
	fields := to.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		source := from.Descriptor().Fields().ByName(field.Name())
		if source == nil || !from.Has(source) && !explicitZero(field) {
			continue
		}
		to.Set(field, from.Get(source))
	}
	// Lists and messages were shared until here.
	return proto.CloneOf(req)
}

// explicitZero reports whether zero is a value of its own, and not the absence
// of one: of numbers and switches that have a default other than zero.
func explicitZero(field protoreflect.FieldDescriptor) bool {
	if !field.HasPresence() || field.Name() == "interval_ms" { // 0: it has no interval
		return false
	}
	return field.Kind() == protoreflect.BoolKind || field.Kind() == protoreflect.Uint32Kind || field.Kind() == protoreflect.Int32Kind
}

// Fixed are the fields of an upsert that no edit changes.
var Fixed = []protoreflect.Name{"schedule_id", "user_id", "request_id", "adopt"}
