package schedule

import (
	"slices"
	"time"
)

// AlertNotice is the newest notice of one alert for one target that gets grouped messages.
// messages.
type AlertNotice struct {
	Target     string
	AlertID    string
	GroupID    string // empty: in no open group yet
	GroupKey   string
	ScheduleID string
	Type       string // as AlertDelivery.Type
	OpenedAt   time.Time
	NoticedAt  time.Time
	Told       bool // it is in a message already
}

// The types of notices that grouping distinguishes.
const (
	NoticeOpened    = "alert.opened"
	NoticeReminder  = "alert.reminder"
	NoticeRecovered = "alert.recovered"
)

// Open reports whether the alert is open.
func (n *AlertNotice) Open() bool { return n.Type != NoticeRecovered }

// AlertGroup is one incident of one target: alerts that share messages.
type AlertGroup struct {
	Target   string
	GroupID  string // the alert that started it
	Key      string
	JoinedAt time.Time // when the newest alert joined
	ToldAt   time.Time // of the last message; zero: none yet
	Notices  []AlertNotice
}

// AlertGrouping asks for a pass over the notices.
type AlertGrouping struct {
	Now time.Time
	// JoinedSince: a group that no alert has joined since takes no more alerts.
	JoinedSince time.Time
	// StartedSince: a group whose first alert opened before takes no more alerts.
	StartedSince time.Time
	// Interval is the least time between two messages of a group. Until then the group is not
	// decided on, because that reads all its notices.
	Interval time.Duration
	Limit    int // of notices and of groups in one pass
}

// GroupVerdict is the decision on a group.
type GroupVerdict struct {
	Delivery *AlertDelivery // nil: no message now
	CheckAt  time.Time      // zero: not until an alert of the group changes
	Closed   bool           // all alerts are closed, and the message says so
}

// GroupDecision decides about one group. payload reads the message of one of its
// alerts.
type GroupDecision func(g AlertGroup, payload func(alertID string) (string, error)) (GroupVerdict, error)

// PlaceNotices puts notices without a group into one: a new alert into the newest group of its
// key, or into a new group. Other notices always get a new group: other messages about them were
// sent before, and the id of an incident must not change. It returns the groups that an alert
// joined, and all groups that changed.
func PlaceNotices(notices []AlertNotice, groups []AlertGroup, now time.Time) (joined, changed []AlertGroup) {
	type place struct{ target, name string }
	byKey := make(map[place]AlertGroup)
	for _, g := range slices.Backward(groups) { // newest first: the newest of a key stays
		byKey[place{g.Target, g.Key}] = g
	}
	seen := make(map[place]bool)
	note := func(list []AlertGroup, g AlertGroup, what string) []AlertGroup {
		if at := (place{g.Target, what + g.GroupID}); !seen[at] {
			seen[at] = true
			list = append(list, g)
		}
		return list
	}
	for i := range notices {
		n := &notices[i]
		g := AlertGroup{Target: n.Target, GroupID: n.GroupID, Key: n.GroupKey, JoinedAt: now}
		if n.GroupID == "" {
			at := place{n.Target, n.GroupKey}
			open, found := byKey[at]
			switch {
			case n.Type != NoticeOpened:
				g.GroupID = n.AlertID
			case found:
				g.GroupID = open.GroupID
			default:
				g.GroupID = n.AlertID
				byKey[at] = g
			}
			n.GroupID = g.GroupID
			joined = note(joined, g, "joined ")
		}
		changed = note(changed, g, "")
	}
	return joined, changed
}
