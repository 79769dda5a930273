package rawjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal writes m as one JSON object without added line breaks. A raw member is copied byte for byte;
// an empty one is null. Raw members in maps are not supported; a test checks that no message has them.
func Marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	// protojson varies its spaces on purpose.
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	md := m.ProtoReflect().Descriptor()
	if !holdsRaw(md) {
		return compact.Bytes(), nil
	}
	w := writer{scanner: scanner{text: compact.Bytes()}}
	w.out.Grow(compact.Len())
	w.message(md)
	return w.out.Bytes(), w.err
}

// writer copies protojson's text and replaces base64 by raw members.
type writer struct {
	scanner
	out bytes.Buffer
	err error
}

func (w *writer) message(md protoreflect.MessageDescriptor) {
	first := true
	w.out.WriteByte('{')
	w.members(func(name string, token []byte) {
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		w.out.Write(token)
		w.out.WriteByte(':')
		fd := md.Fields().ByName(protoreflect.Name(name))
		switch {
		case fd == nil || w.peek() == 'n' || fd.IsMap():
			w.out.Write(w.value())
		case fd.IsList():
			w.list(fd)
		default:
			w.single(fd)
		}
	})
	w.out.WriteByte('}')
}

func (w *writer) list(fd protoreflect.FieldDescriptor) {
	w.out.WriteByte('[')
	w.elements(func(i int) {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.single(fd)
	})
	w.out.WriteByte(']')
}

func (w *writer) single(fd protoreflect.FieldDescriptor) {
	switch {
	case fd.Kind() == protoreflect.BytesKind:
		w.raw(fd)
	case fd.Message() != nil && holdsRaw(fd.Message()):
		w.message(fd.Message())
	default:
		w.out.Write(w.value())
	}
}

func (w *writer) raw(fd protoreflect.FieldDescriptor) {
	raw, err := base64.StdEncoding.DecodeString(unquote(w.value()))
	switch {
	case err != nil:
		w.err = fmt.Errorf("write JSON: %s: %w", fd.FullName(), err)
	case len(raw) == 0:
		w.out.WriteString("null")
	case !json.Valid(raw):
		w.err = fmt.Errorf("write JSON: %s does not hold JSON", fd.FullName())
	default:
		w.out.Write(raw)
	}
}

var rawHolders sync.Map // protoreflect.FullName → bool

// holdsRaw reports whether a message, or one inside it, has a raw member.
func holdsRaw(md protoreflect.MessageDescriptor) bool {
	if known, ok := rawHolders.Load(md.FullName()); ok {
		return known.(bool)
	}
	holds := searchRaw(md, make(map[protoreflect.FullName]bool))
	rawHolders.Store(md.FullName(), holds)
	return holds
}

func searchRaw(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[md.FullName()] || wellKnown(md) {
		return false
	}
	seen[md.FullName()] = true
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Kind() == protoreflect.BytesKind || fd.Message() != nil && searchRaw(fd.Message(), seen) {
			return true
		}
	}
	return false
}
