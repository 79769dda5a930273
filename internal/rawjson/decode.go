package rawjson

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/schedule"
)

// maxViolations bounds an answer, so that a hostile request cannot make it large.
const maxViolations = 20

// Decoder reads messages. The APIs use the zero value.
type Decoder struct {
	// Prefix is added to every field in an error, e.g. "dag.triggers[0].".
	Prefix string
	// Allow lists unknown members of the outermost object to ignore.
	Allow []string
}

// Unmarshal is Decoder{}.Unmarshal.
func Unmarshal(text []byte, m proto.Message) error { return Decoder{}.Unmarshal(text, m) }

// Unmarshal resets m and reads one JSON object into it. The error is one *schedule.InvalidError with
// every invalid field.
func (d Decoder) Unmarshal(text []byte, m proto.Message) error {
	if err := valid(text); err != nil {
		return &schedule.InvalidError{Violations: []schedule.Violation{{Field: d.outermost(), Problem: err.Error()}}}
	}
	in := reader{scanner: scanner{text: text}, allow: d.Allow}
	in.out.Grow(len(text) + len(text)/2)
	in.message(m.ProtoReflect().Descriptor(), d.Prefix)
	if len(in.violations) > 0 {
		return &schedule.InvalidError{Violations: in.violations}
	}
	if err := protojson.Unmarshal(in.out.Bytes(), m); err != nil {
		// Rare, e.g. a lone surrogate in a string. protojson's text has the position.
		return &schedule.InvalidError{Violations: []schedule.Violation{{Field: d.outermost(), Problem: "is refused: " + err.Error()}}}
	}
	return nil
}

func (d Decoder) outermost() string {
	if d.Prefix == "" {
		return "body"
	}
	return strings.TrimSuffix(d.Prefix, ".")
}

// reader rewrites text for protojson, with raw members in base64.
type reader struct {
	scanner
	out        bytes.Buffer
	allow      []string // only at the outermost object
	violations []schedule.Violation
}

func (r *reader) refuse(field, problem, hint string) {
	if len(r.violations) < maxViolations {
		r.violations = append(r.violations, schedule.Violation{Field: field, Problem: problem, Hint: hint})
	}
}

// message reads an object of type md; prefix is its path with a final dot.
func (r *reader) message(md protoreflect.MessageDescriptor, prefix string) {
	if r.peek() != '{' {
		field := strings.TrimSuffix(prefix, ".")
		if field == "" {
			field = "body"
		}
		r.refuse(field, shown(r.value())+" is not an object", "")
		return
	}
	allow := r.allow
	r.allow = nil
	seen := make(map[string]bool)
	wrote := false
	r.out.WriteByte('{')
	r.members(func(name string, _ []byte) {
		fd := md.Fields().ByName(protoreflect.Name(name))
		again := seen[name]
		seen[name] = true
		switch {
		case again:
			r.refuse(prefix+name, "is there twice in one object", "keep one")
			r.value()
		case fd == nil && slices.Contains(allow, name):
			r.value()
		case fd == nil:
			r.refuse(prefix+shortened(name), "is not a field of "+string(md.Name()), suggestion(md, name))
			r.value()
		default:
			if wrote {
				r.out.WriteByte(',')
			}
			wrote = true
			fmt.Fprintf(&r.out, "%q:", name)
			r.field(fd, prefix+name)
		}
	})
	r.out.WriteByte('}')
}

// field reads the value of one field.
func (r *reader) field(fd protoreflect.FieldDescriptor, path string) {
	if r.peek() == 'n' { // null means unset
		r.out.Write(r.value())
		return
	}
	switch {
	case fd.IsMap():
		r.object(fd, path)
	case fd.IsList():
		r.list(fd, path)
	default:
		r.single(fd, path)
	}
}

func (r *reader) list(fd protoreflect.FieldDescriptor, path string) {
	if r.peek() != '[' {
		r.refuse(path, shown(r.value())+" is not a list", "write it as [ … ]")
		return
	}
	r.out.WriteByte('[')
	r.elements(func(i int) {
		if i > 0 {
			r.out.WriteByte(',')
		}
		r.single(fd, fmt.Sprintf("%s[%d]", path, i))
	})
	r.out.WriteByte(']')
}

func (r *reader) object(fd protoreflect.FieldDescriptor, path string) {
	if r.peek() != '{' {
		r.refuse(path, shown(r.value())+" is not an object", "")
		return
	}
	seen := make(map[string]bool)
	r.out.WriteByte('{')
	r.members(func(name string, token []byte) {
		at := path + "[" + schedule.Quote(name) + "]"
		if seen[name] {
			r.refuse(at, "is there twice in one object", "keep one")
			r.value()
			return
		}
		if len(seen) > 0 {
			r.out.WriteByte(',')
		}
		seen[name] = true
		r.out.Write(token)
		r.out.WriteByte(':')
		r.single(fd.MapValue(), at)
	})
	r.out.WriteByte('}')
}

// single reads one value of fd's kind: a field, an element or a map's value.
func (r *reader) single(fd protoreflect.FieldDescriptor, path string) {
	if fd.Kind() == protoreflect.BytesKind {
		raw := r.value()
		if fd.IsList() && string(raw) == "null" {
			r.refuse(path, "is null", "leave it out")
		}
		r.out.WriteByte('"')
		r.out.WriteString(base64.StdEncoding.EncodeToString(raw))
		r.out.WriteByte('"')
		return
	}
	if md := fd.Message(); md != nil && !wellKnown(md) {
		r.message(md, path+".")
		return
	}
	value := r.value()
	if expected := expectation(fd, value); expected != "" {
		r.refuse(path, shown(value)+" is not "+expected, "")
	}
	r.out.Write(value)
}

// suggestion finds the field with a similar name.
func suggestion(md protoreflect.MessageDescriptor, name string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	for i := range md.Fields().Len() {
		if field := string(md.Fields().Get(i).Name()); plain(field) == plain(name) {
			return "write " + field
		}
	}
	return ""
}

// shown truncates a refused value for an error message.
func shown(value []byte) string {
	const limit = 80
	if len(value) > limit {
		return fmt.Sprintf("%q… (%d bytes)", value[:limit], len(value))
	}
	return string(value)
}

func shortened(name string) string {
	if quoted := schedule.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
