package rawjson

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// expectation describes the expected value, or is empty if value is valid. protojson checks kinds that
// carillon.v1 does not use.
func expectation(fd protoreflect.FieldDescriptor, value []byte) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if value[0] != '"' {
			return "a string"
		}
	case protoreflect.BoolKind:
		if s := string(value); s != "true" && s != "false" {
			return "true or false"
		}
	case protoreflect.Int32Kind:
		if !whole(value, math.MinInt32, math.MaxInt32) {
			return "a whole number from -2147483648 to 2147483647"
		}
	case protoreflect.Uint32Kind:
		if !whole(value, 0, math.MaxUint32) {
			return "a whole number from 0 to 4294967295"
		}
	case protoreflect.MessageKind:
		if protojson.Unmarshal(value, dynamicpb.NewMessage(fd.Message())) != nil {
			return described(fd.Message())
		}
	}
	return ""
}

// whole reports whether value is an integer within the bounds, in any notation. Quoted numbers are
// refused.
func whole(value []byte, least, most float64) bool {
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f == math.Trunc(f) && f >= least && f <= most
}

// wellKnown reports whether a message has a special JSON form.
func wellKnown(md protoreflect.MessageDescriptor) bool {
	return md.FullName().Parent() == "google.protobuf"
}

func described(md protoreflect.MessageDescriptor) string {
	if md.FullName() == "google.protobuf.Timestamp" {
		return "a time such as 2026-03-08T14:00:00Z or 2026-03-08T15:00:00+01:00"
	}
	return "a " + string(md.FullName())
}
