package registrar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestAKeyOutOfBoundsIsRefusedWithTheFieldAndItsValue(t *testing.T) {
	for name, tt := range map[string]struct {
		field string
		edit  func(*registrar.LimitKeyInput)
	}{
		"no key":                           {"key", func(in *registrar.LimitKeyInput) { in.Key = "" }},
		"a key with a blank":               {"key", func(in *registrar.LimitKeyInput) { in.Key = "a b" }},
		"a key with a control character":   {"key", func(in *registrar.LimitKeyInput) { in.Key = "a\nb" }},
		"a key of 129 characters":          {"key", func(in *registrar.LimitKeyInput) { in.Key = strings.Repeat("x", 129) }},
		"max_in_flight 10001":              {"max_in_flight", func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(10_001) }},
		"a rate in no time":                {"rate.per_ms", func(in *registrar.LimitKeyInput) { in.Rate.Starts = 1 }},
		"an end now":                       {"until", func(in *registrar.LimitKeyInput) { in.Until = noon }},
		"an end in 2100":                   {"until", func(in *registrar.LimitKeyInput) { in.Until = schedule.MaxTime }},
		"an end of the limit's numbers":    {"until", func(in *registrar.LimitKeyInput) { in.MaxInFlight, in.Until = nil, noon.Add(time.Hour) }},
		"a note about the limit's numbers": {"note", func(in *registrar.LimitKeyInput) { in.MaxInFlight, in.Note = nil, "why" }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimitRig(t)
			l.upsert(gpuLimit(byKey))
			_, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(1) }, tt.edit)
			invalid, ok := errors.AsType[*schedule.InvalidError](err)
			if !ok || len(invalid.Violations) != 1 || invalid.Violations[0].Field != tt.field {
				t.Errorf("got %v", err)
			}
			if found, err := l.GetLimit(t.Context(), "gpu", "", 10); err != nil || len(found.Keys) != 0 {
				t.Errorf("written: %+v, %v", found, err)
			}
		})
	}
	l := newLimitRig(t)
	l.upsert(gpuLimit())
	_, err := l.setKey(func(in *registrar.LimitKeyInput) { in.MaxInFlight = most(1) })
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); !ok || invalid.Violations[0].Field != "key" {
		t.Errorf("a key of a limit without keys: %v", err)
	}
}

func TestKeysHaveTheirNumbersUntilTheyEnd(t *testing.T) {
	l := newLimitRig(t)
	l.upsert(gpuLimit(byKey))
	set := func(edits ...func(*registrar.LimitKeyInput)) registrar.ChangedLimitKey {
		t.Helper()
		done, err := l.setKey(edits...)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	shown := func() string {
		t.Helper()
		d, err := l.GetLimit(t.Context(), "gpu", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, k := range d.Keys {
			texts = append(texts, fmt.Sprintf("%s %d", k.Key, *k.MaxInFlight))
		}
		return strings.Join(texts, ", ")
	}
	stop := func(in *registrar.LimitKeyInput) {
		in.MaxInFlight, in.Note, in.Until = most(0), "unpaid", noon.Add(time.Hour)
	}
	other := func(in *registrar.LimitKeyInput) { in.Key, in.MaxInFlight = "b8", most(9) }
	set(stop)
	set(other)
	set(stop)
	if got := shown(); got != "a7 0, b8 9" {
		t.Errorf("shown as %q", got)
	}
	d, err := l.GetLimit(t.Context(), "gpu", "", 1)
	if err != nil || len(d.Keys) != 1 || d.After != "a7" {
		t.Errorf("the first page is %+v, %v", d, err)
	}
	if d, err = l.GetLimit(t.Context(), "gpu", "a7", 1); err != nil || len(d.Keys) != 1 || d.Keys[0].Key != "b8" || d.After != "" {
		t.Errorf("the second page is %+v, %v", d, err)
	}
	l.now = noon.Add(time.Hour)
	if got := shown(); got != "b8 9" {
		t.Errorf("after the end shown as %q", got)
	}
	set(func(in *registrar.LimitKeyInput) { in.Key = "b8" })
	set(func(in *registrar.LimitKeyInput) { in.Key = "b8" })
	if got := shown(); got != "" {
		t.Errorf("without numbers shown as %q", got)
	}
	if keys, err := l.store.ListLimitKeys(t.Context(), d.No, "", 10); err != nil || len(keys) != 0 {
		t.Errorf("what has ended goes with the next change: %+v, %v", keys, err)
	}
}
