package dumps_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// text is a value as one line: fields that are zero are left out, instants are
// UTC, and keys have the names of their runs.
func (a *answers) text(v any) string {
	var out strings.Builder
	a.write(&out, reflect.ValueOf(v))
	return out.String()
}

func (a *answers) write(out *strings.Builder, v reflect.Value) {
	if !v.IsValid() {
		out.WriteString("none")
		return
	}
	switch x := v.Interface().(type) {
	case time.Time:
		out.WriteString(x.UTC().Format(time.RFC3339Nano))
		return
	case time.Duration:
		out.WriteString(x.String())
		return
	case schedule.Key:
		out.WriteString(a.called(x))
		return
	case [32]byte:
		out.WriteString(hex.EncodeToString(x[:4]))
		return
	case schedule.Run: // as GetRun answers it, or in full
		if whole := a.whole(&x); whole != a.asIs[x.Key] {
			out.WriteString(whole)
		} else {
			out.WriteString(a.called(x.Key))
		}
		return
	case schedule.Event: // schedules that are planned together have ids in any order
		x.ID = 0
		a.writeStruct(out, reflect.ValueOf(x))
		return
	case json.RawMessage:
		out.Write(x)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		a.write(out, v.Elem())
	case reflect.Struct:
		a.writeStruct(out, v)
	case reflect.Slice, reflect.Array:
		out.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				out.WriteByte(' ')
			}
			a.write(out, v.Index(i))
		}
		out.WriteByte(']')
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		out.WriteString("map[")
		for _, key := range keys {
			fmt.Fprintf(out, "%v:", key)
			a.write(out, v.MapIndex(key))
			out.WriteByte(' ')
		}
		out.WriteByte(']')
	case reflect.String:
		if s := v.String(); strings.ContainsAny(s, " \n\"") {
			fmt.Fprintf(out, "%q", s)
		} else {
			out.WriteString(s)
		}
	default:
		fmt.Fprint(out, v.Interface())
	}
}

// whole is a run in full.
func (a *answers) whole(r *schedule.Run) string {
	var out strings.Builder
	a.writeStruct(&out, reflect.ValueOf(*r))
	return out.String()
}

func (a *answers) writeStruct(out *strings.Builder, v reflect.Value) {
	out.WriteByte('{')
	begun := false
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() || empty(v.Field(i)) {
			continue
		}
		if begun {
			out.WriteByte(' ')
		}
		begun = true
		out.WriteString(v.Type().Field(i).Name + ":")
		a.write(out, v.Field(i))
	}
	out.WriteByte('}')
}

func empty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// called names a run by its schedule, trigger and slot.
func (a *answers) called(key schedule.Key) string {
	if name, known := a.names[key]; known {
		return name
	}
	return key.String()[:12]
}

func nameOf(r *schedule.Run) string {
	name := fmt.Sprintf("%s/%s/%s", r.ScheduleID, r.Trigger, r.RunAt.UTC().Format("0102T150405"))
	if r.Key != schedule.SlotKey(r.ScheduleID, r.RunAt) {
		name += "/" + r.Key.String()[:4]
	}
	return name
}
