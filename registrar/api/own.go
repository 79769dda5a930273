package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/auth"
)

// fillOwner sets the owner of a caller's request if it names none. The registrar refuses other
// owners.
func fillOwner(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if owner := auth.FromContext(ctx).Owner; owner != "" {
		if m, ok := req.(proto.Message); ok {
			fill(m.ProtoReflect(), owner)
		}
	}
	return next(ctx, req)
}

// fill goes down into the messages of lists: those of a set name an owner each.
func fill(m protoreflect.Message, owner string) {
	fields := m.Descriptor().Fields()
	if fd := fields.ByName("user_id"); fd != nil && fd.Kind() == protoreflect.StringKind && m.Get(fd).String() == "" {
		m.Set(fd, protoreflect.ValueOfString(owner))
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !fd.IsList() || fd.Kind() != protoreflect.MessageKind {
			continue
		}
		list := m.Get(fd).List()
		for j := range list.Len() {
			fill(list.Get(j).Message(), owner)
		}
	}
}
