package registrar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

func TestTopicsAreTheirOwners(t *testing.T) {
	w := newTopicRig(t)
	w.consumer("a", "ada", "orders")
	w.publish("ada", "bills", "o-1")
	w.publish("bob", "orders", "o-1")
	bob := auth.NewContext(t.Context(), auth.Identity{Subject: "bob", Owner: "bob"})
	names := func(found []topic.Stats, err error) (names []string) {
		if err != nil {
			t.Error(err)
		}
		for i := range found {
			names = append(names, found[i].UserID+"/"+found[i].Topic)
		}
		return names
	}
	if got, want := names(w.ListTopics(t.Context(), topic.NameFilter{Limit: 10})), []string{"ada/bills", "ada/orders", "bob/orders"}; !slices.Equal(got, want) {
		t.Errorf("all are %q, want %q", got, want)
	}
	if got, want := names(w.ListTopics(bob, topic.NameFilter{Limit: 10})), []string{"bob/orders"}; !slices.Equal(got, want) {
		t.Errorf("bob's are %q, want %q", got, want)
	}
	if got := names(w.ListTopics(bob, topic.NameFilter{UserID: "ada", Limit: 10})); len(got) > 0 {
		t.Errorf("bob lists %q of ada", got)
	}
	if _, err := w.GetTopic(bob, topic.Name{Topic: "bills"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a topic of another owner: %v", err)
	}
}

func TestAnAuditIsOfARangeOfOneTopic(t *testing.T) {
	w := newTopicRig(t)
	w.consumer("a", "ada", "orders")
	w.publish("ada", "orders", "old")
	w.now = noon.Add(2 * time.Hour)
	w.publish("ada", "orders", "o-1")
	w.publish("ada", "bills", "o-1")
	w.now = w.now.Add(time.Minute)
	for _, c := range []struct {
		name   string
		f      topic.AuditFilter
		events int
		says   string
	}{
		{"the last hour", topic.AuditFilter{}, 1, ""},
		{"from a time on", topic.AuditFilter{From: noon}, 2, ""},
		{"the hour before a time", topic.AuditFilter{Until: noon.Add(time.Second)}, 1, ""},
		{"an empty range", topic.AuditFilter{From: noon, Until: noon}, 0, "is not before until"},
	} {
		c.f.UserID, c.f.Topic = "ada", "orders"
		a, _, cut, err := w.AuditTopic(t.Context(), c.f)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || cut || a.Events != c.events || a.Broken > 0:
			t.Errorf("%s: %+v, cut %t, %v", c.name, a, cut, err)
		}
	}
}
