package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// sentKey is the context key of the client's request.
type sentKey struct{}

// sent is a REST request as the client wrote it. The gateway passes on only the text
// of a body's error, and ignores unknown query parameters; so both are kept here.
type sent struct {
	io.ReadCloser // the body
	method        string
	query         url.Values
	refused       error         // why the body was refused
	anyBytes      bool          // bytes that are no UTF-8 count as U+FFFD
	members       []string      // of the body of a patch, by name
	queueID       string        // in the body
	request       proto.Message // in place of the body
}

// marshaler is the gateway's JSON: rawjson for every content type.
type marshaler struct{}

func (marshaler) ContentType(any) string { return "application/json" }

func (marshaler) StreamContentType(any) string { return "application/x-ndjson" }

func (marshaler) Marshal(v any) ([]byte, error) {
	switch x := v.(type) {
	case proto.Message:
		return rawjson.Marshal(x)
	case map[string]any: // a message of a stream: {"result": …}
		if line, ok := x["result"].(*carillonv1.ExportRunsResponse); ok {
			return rawjson.Marshal(line.GetRun()) // a file of runs, not of answers
		}
		return marshalMembers(x)
	case map[string]proto.Message: // the end of a stream: {"error": …}
		return marshalMembers(x)
	}
	return json.Marshal(v)
}

func marshalMembers[T any](members map[string]T) ([]byte, error) {
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(members)) {
		value, err := marshaler{}.Marshal(members[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%c%q:", "{,"[min(i, 1)], name)
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func (marshaler) Unmarshal(text []byte, v any) error {
	if part, ok := v.(**carillonv1.UpsertScheduleRequest); ok { // the body is one field of a request
		*part = &carillonv1.UpsertScheduleRequest{}
		v = *part
	}
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("cannot read JSON into %T", v)
	}
	return rawjson.Unmarshal(text, m)
}

func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	})
}

// NewDecoder reads the whole of r as one object; io.EOF if it is empty.
func (m marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		if s, ok := r.(*sent); ok && s.request != nil {
			if m, ok := v.(proto.Message); ok {
				proto.Merge(m, s.request)
				return nil
			}
		}
		text, err := io.ReadAll(r)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			err = unread(err)
		case err != nil:
			return err
		case len(bytes.TrimSpace(text)) == 0:
			return io.EOF
		default:
			if s, ok := r.(*sent); ok && s.anyBytes {
				text = anyText(text)
			}
			err = m.Unmarshal(text, v)
		}
		if s, ok := r.(*sent); ok {
			s.refused = err
			if m, ok := v.(proto.Message); ok && err == nil {
				s.queueID = queueIDIn(m.ProtoReflect())
			}
			if s.method == http.MethodPatch && err == nil {
				s.members = membersOf(text)
			}
		}
		return err
	})
}

// unread is why a body could not be read.
func unread(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &schedule.InvalidError{Violations: []schedule.Violation{{
			Field: "body", Problem: fmt.Sprintf("has more than %d bytes", large.Limit),
		}}}
	}
	return schedule.Explain(schedule.ErrUnavailable, "the body could not be read to its end; send it again")
}

// anyText makes JSON text with invalid UTF-8, or with escaped lone surrogates (Python writes such
// bytes that way), readable. Each becomes U+FFFD.
func anyText(text []byte) []byte {
	text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	surrogate := func(at int, first byte) bool { // \ud8.. to \udb.., or \udc.. to \udf..
		return at+6 <= len(text) && text[at] == '\\' && text[at+1] == 'u' && text[at+2]|0x20 == 'd' &&
			bytes.IndexByte([]byte("89ab"), text[at+3]|0x20) >= 0 == (first == 'h') && bytes.IndexByte([]byte("89abcdef"), text[at+3]|0x20) >= 0
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
		case surrogate(i, 'h') && surrogate(i+6, 'l'):
			i += 11
		case surrogate(i, 'h') || surrogate(i, 'l'):
			copy(text[i+2:], "fffd")
			i += 5
		default:
			i++ // skip the escaped character
		}
	}
	return text
}

// checkedConn refuses a call with query parameters that it does not have, and one with another
// queue in its body than in its path. Where path and body name another field twice, the path wins,
// as the gateway has it.
type checkedConn struct{ grpc.ClientConnInterface }

func (c checkedConn) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	if err := unknownParameters(ctx, req); err != nil {
		return err
	}
	if err := otherQueue(ctx, req); err != nil {
		return err
	}
	if patch, ok := req.(*carillonv1.PatchScheduleRequest); ok {
		maskMembers(ctx, patch)
	}
	return c.ClientConnInterface.Invoke(ctx, method, req, resp, opts...)
}

func (c checkedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	return checkedStream{stream, ctx}, err
}

type checkedStream struct {
	grpc.ClientStream
	ctx context.Context // a stream is its context
}

func (s checkedStream) SendMsg(req any) error {
	if err := unknownParameters(s.ctx, req); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(req)
}

// checkUTF8 checks path and query parameters; proto cannot carry invalid UTF-8.
func checkUTF8(c *schedule.Collect, m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() != protoreflect.StringKind || fd.IsMap() {
			return true
		}
		all := []protoreflect.Value{v}
		if fd.IsList() {
			all = nil
			for i := range v.List().Len() {
				all = append(all, v.List().Get(i))
			}
		}
		for _, one := range all {
			if !utf8.ValidString(one.String()) {
				c.Add(string(fd.Name()), one.String(), "is not UTF-8", "")
			}
		}
		return true
	})
}

// queueIDIn is the queue_id of a request, or of its filter.
func queueIDIn(m protoreflect.Message) string {
	fields := m.Descriptor().Fields()
	if fd := fields.ByName("queue_id"); fd != nil && fd.Kind() == protoreflect.StringKind {
		return m.Get(fd).String()
	}
	if fd := fields.ByName("filter"); fd != nil && fd.Message() != nil && m.Has(fd) {
		return queueIDIn(m.Get(fd).Message())
	}
	return ""
}

// otherQueue refuses a body with another queue than the path: the gateway has put that of the path
// into the request.
func otherQueue(ctx context.Context, req any) error {
	s, ok := ctx.Value(sentKey{}).(*sent)
	m, isMessage := req.(proto.Message)
	if !ok || !isMessage || s.queueID == "" {
		return nil
	}
	named := queueIDIn(m.ProtoReflect())
	if named == s.queueID {
		return nil
	}
	return statusOf(schedule.Invalid("queue_id", s.queueID, "is not the queue of the path, "+schedule.Quote(named), "leave it out of the body")).Err()
}

// unknownParameters refuses text that is no UTF-8, and query parameters that the call
// does not have or that belong into its body.
func unknownParameters(ctx context.Context, req any) error {
	s, ok := ctx.Value(sentKey{}).(*sent)
	msg, isMessage := req.(proto.Message)
	if !ok || !isMessage {
		return nil
	}
	var c schedule.Collect
	m := msg.ProtoReflect()
	checkUTF8(&c, m)
	hasBody := s.method == http.MethodPost || s.method == http.MethodPut
	for name := range s.query {
		switch {
		case m.Descriptor().Fields().ByName(protoreflect.Name(name)) == nil:
			c.Note(name, "is not a parameter of this call", "")
		case hasBody:
			c.Note(name, "is in the query", "put it in the body")
		}
	}
	if err := c.Err(); err != nil {
		return statusOf(err).Err()
	}
	return nil
}
