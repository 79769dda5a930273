package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api/editable"
)

func (s *scheduleServer) PatchSchedule(ctx context.Context, req *carillonv1.PatchScheduleRequest) (*carillonv1.PatchScheduleResponse, error) {
	revision, err := wantedRevision(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	actor := s.actor(ctx)
	done, err := s.write.Patch(ctx, registrar.PatchInput{
		ScheduleID: req.GetScheduleId(), IfRevision: revision,
		Edit: func(current *schedule.Schedule) (registrar.UpsertInput, error) {
			merged, err := patched(req, current)
			if err != nil {
				return registrar.UpsertInput{}, err
			}
			if err := validate(merged, ""); err != nil {
				return registrar.UpsertInput{}, err
			}
			return upsertOf(merged, actor), nil
		},
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.PatchScheduleResponse{Schedule: scheduleOf(registrar.View{
		Schedule: done.Schedule, NextRunAt: done.NextRunAt, Paused: done.Schedule.Pause.Active(s.now()),
	}), Changed: done.Changed}
	if done.Warning != "" {
		resp.Warning = &done.Warning
	}
	return resp, nil
}

// patched is the whole upsert of the current schedule with the fields of a patch replaced.
func patched(req *carillonv1.PatchScheduleRequest, current *schedule.Schedule) (*carillonv1.UpsertScheduleRequest, error) {
	merged := editable.Definition(scheduleOf(registrar.View{Schedule: current}))
	merged.Paused = nil // unless the mask names it
	var c schedule.Collect
	given := proto.CloneOf(req.GetSchedule()) // the merge changes it
	values := given.ProtoReflect()
	paths := maskOf(req)
	if len(paths) == 0 {
		c.Note("update_mask", "is empty", "name the fields to change")
	}
	for _, path := range paths {
		name, key, nested := strings.Cut(path, ".")
		field := merged.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
			c.Add("update_mask", path, "is not a field of UpsertScheduleRequest", "")
		case slices.Contains(editable.Fixed, field.Name()):
			checkFixed(&c, req, current, field)
		case nested && (name != "labels" || key == ""):
			c.Add("update_mask", path, "is not the name of a whole field", "name "+name+"; only labels.NAME can be changed one by one")
		case nested:
			patchLabel(merged, key, given.GetLabels())
		case values.IsValid() && values.Has(field):
			merged.ProtoReflect().Set(field, values.Get(field))
		default:
			merged.ProtoReflect().Clear(field)
		}
		if name == "managed_by" && merged.GetManagedBy() == "" && current.ManagedBy != "" && !req.GetAdopt() {
			c.Note("managed_by", "cannot be cleared without adopt", "leave it out of update_mask to keep "+current.ManagedBy)
		}
	}
	if merged.GetGrant() != nil && !slices.Contains(paths, "execution_grant_id") {
		merged.ExecutionGrantId = "" // the new grant takes its place
	}
	merged.Adopt = req.GetAdopt()
	return merged, c.Err()
}

// checkFixed accepts a field that cannot change if it has the value that the
// schedule has: a client may send the whole definition that it has read.
func checkFixed(c *schedule.Collect, req *carillonv1.PatchScheduleRequest, current *schedule.Schedule, field protoreflect.FieldDescriptor) {
	in := req.GetSchedule()
	switch field.Name() {
	case "schedule_id":
		if id := in.GetScheduleId(); id != req.GetScheduleId() && id != current.ScheduleID {
			c.Add("schedule_id", id, "cannot change from "+schedule.Quote(current.ScheduleID), "leave it out")
		}
	case "user_id":
		if in.GetUserId() != current.UserID {
			c.Add("user_id", in.GetUserId(), "cannot change from "+schedule.Quote(current.UserID), "leave it out")
		}
	default:
		c.Add("update_mask", string(field.Name()), "is not a field of the definition", "leave it out")
	}
}

func patchLabel(merged *carillonv1.UpsertScheduleRequest, name string, values map[string]string) {
	value, set := values[name]
	if !set {
		delete(merged.Labels, name)
		return
	}
	if merged.Labels == nil {
		merged.Labels = make(map[string]string)
	}
	merged.Labels[name] = value
}

// maskOf are the paths of a patch: those it names, else the fields that it sets.
func maskOf(req *carillonv1.PatchScheduleRequest) []string {
	if req.UpdateMask != nil {
		return req.GetUpdateMask().GetPaths()
	}
	var paths []string
	req.GetSchedule().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		paths = append(paths, string(field.Name()))
		return true
	})
	slices.Sort(paths)
	return paths
}

// ifMatch is the header of REST calls, as the gateway passes it on.
const ifMatch = "grpcgateway-if-match"

// wantedRevision reads an etag, or the header If-Match; 0 is any revision.
func wantedRevision(ctx context.Context, etag string) (int64, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, header := range md.Get(ifMatch) {
		if etag != "" && untagged(etag) != untagged(header) {
			return 0, schedule.Invalid("etag", etag, "is not what If-Match says: "+schedule.Quote(header), "give one of them")
		}
		etag = header
	}
	if etag == "" || etag == "*" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(untagged(etag), 10, 32)
	if err != nil || revision == 0 {
		return 0, schedule.Invalid("etag", etag, "is not a revision", "take the revision that GetSchedule answers, e.g. \"3\"")
	}
	return int64(revision), nil
}

func untagged(etag string) string {
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(etag), "W/"), `"`)
}

// tagRevision answers the revision of one schedule as an ETag.
func tagRevision(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	one, ok := m.(interface{ GetSchedule() *carillonv1.Schedule })
	if ok && one.GetSchedule().GetRevision() > 0 {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, one.GetSchedule().GetRevision()))
	}
	return nil
}

// membersOf are the names of an object's members.
func membersOf(object []byte) (names []string) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return nil
		}
		names = append(names, fmt.Sprint(name))
	}
	return names
}

// maskMembers makes the members of a REST body the mask of a patch that names
// none.
func maskMembers(ctx context.Context, patch *carillonv1.PatchScheduleRequest) {
	s, ok := ctx.Value(sentKey{}).(*sent)
	if ok && len(patch.GetUpdateMask().GetPaths()) == 0 {
		patch.UpdateMask = &fieldmaskpb.FieldMask{Paths: s.members}
	}
}
