package console

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const historyShown = 50

// historyView lists the revisions and events of a schedule.
type historyView struct {
	ID        string
	Revisions part[[]revisionRow]
	Events    part[[]eventRow]
	MoreRev   string
	MoreEv    string
	Zone      string
}

type revisionRow struct {
	*carillonv1.ScheduleRevision
	At      moment
	Changes []difference
	First   bool // no earlier revision: Changes is the whole definition
	Blind   bool // the one before it is on the next page
}

// difference is one field of two definitions.
type difference struct{ Field, Old, New string }

type eventRow struct {
	*carillonv1.ScheduleEvent
	At, Since, Until moment
}

func (c *Console) showHistory(v *visit) (page, error) {
	view := historyView{ID: v.PathValue("id"), Zone: v.zone.String()}
	revisions, err := c.schedules.ListRevisions(v.Context(), &carillonv1.ListRevisionsRequest{
		ScheduleId: view.ID, PageSize: historyShown, PageToken: v.param("revisions"),
	})
	if err != nil {
		return page{}, err
	}
	view.Revisions = partOf(v.revisions(revisions), nil)
	if token := revisions.GetNextPageToken(); token != "" {
		view.MoreRev = v.with("revisions", token)
	}
	events, err := c.schedules.ListScheduleEvents(v.Context(), &carillonv1.ListScheduleEventsRequest{
		ScheduleId: view.ID, PageSize: historyShown, PageToken: v.param("events"),
	})
	var rows []eventRow
	for _, e := range events.GetEvents() {
		rows = append(rows, eventRow{e, v.at(e.GetTime()), v.at(e.GetFrom()), v.at(e.GetTo())})
	}
	view.Events = partOf(rows, err)
	if token := events.GetNextPageToken(); token != "" {
		view.MoreEv = v.with("events", token)
	}
	return page{name: "history", title: view.ID + ": history", view: view}, nil
}

// revisions are compared with the one before each; they come newest first.
func (v *visit) revisions(resp *carillonv1.ListRevisionsResponse) []revisionRow {
	all := resp.GetRevisions()
	rows := make([]revisionRow, len(all))
	for i, r := range all {
		row := revisionRow{ScheduleRevision: r, At: v.at(r.GetCreatedAt())}
		switch {
		case i+1 < len(all):
			row.Changes = differences(all[i+1].GetDefinition(), r.GetDefinition())
		case resp.GetNextPageToken() != "":
			row.Blind = true
		default:
			row.First = true
			row.Changes = differences(&carillonv1.ScheduleDefinition{}, r.GetDefinition())
		}
		rows[i] = row
	}
	return rows
}

// differences are in the order of the fields.
func differences(a, b *carillonv1.ScheduleDefinition) (all []difference) {
	fields := b.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		before, after := fieldText(a.ProtoReflect(), field), fieldText(b.ProtoReflect(), field)
		if before != after {
			all = append(all, difference{string(field.Name()), before, after})
		}
	}
	return all
}

// fieldText is a field as shown to a reader; empty if unset.
func fieldText(m protoreflect.Message, field protoreflect.FieldDescriptor) string {
	if !m.Has(field) {
		return ""
	}
	value := m.Get(field)
	switch {
	case field.IsMap():
		labels := make(map[string]string)
		value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool { labels[k.String()] = v.String(); return true })
		text := ""
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			text += name + "=" + labels[name] + "\n"
		}
		return text
	case field.Kind() == protoreflect.BytesKind:
		return indented(value.Bytes())
	case field.Kind() == protoreflect.MessageKind:
		if at, ok := value.Message().Interface().(*timestamppb.Timestamp); ok {
			return at.AsTime().Format(time.RFC3339)
		}
	}
	return fmt.Sprint(value.Interface())
}
