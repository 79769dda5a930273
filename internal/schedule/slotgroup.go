package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// SlotGroup names the group that the runs of one instant join: those of all schedules of one
// owner that name the group and the queue.
type SlotGroup struct {
	QueueID string
	UserID  string
	Name    string // Definition.Group
	RunAt   time.Time
}

// ID is the group_id: queue, owner, name and instant. What would make it ambiguous or no id is
// hashed.
func (g SlotGroup) ID() string {
	parts, at := []string{g.QueueID, g.UserID, g.Name}, g.RunAt.UTC().Format(time.RFC3339Nano)
	id := strings.Join(append(parts, at), ".")
	if ValidID(id) && !strings.Contains(strings.Join(parts, ""), ".") && g.RunAt.Nanosecond() == 0 {
		return id
	}
	sum := g.hash("")
	return "slots:" + hex.EncodeToString(sum[:16]) + ":" + g.RunAt.UTC().Format("20060102T150405.000000Z")
}

// Hash identifies the group: one of another kind that somebody has made under its id has another
// BodyHash.
func (g SlotGroup) Hash() Key { return g.hash(g.RunAt.UTC().Format(time.RFC3339Nano)) }

func (g SlotGroup) hash(at string) Key {
	return sha256.Sum256([]byte(strings.Join([]string{g.QueueID, g.UserID, g.Name, at}, "\x00")))
}

// SlotGroupOf is the group that the run of a slot of a schedule joins; ok = false: it names none.
func SlotGroupOf(d *Definition, runAt time.Time) (g SlotGroup, ok bool) {
	return SlotGroup{d.QueueID, d.UserID, d.Group, runAt}, d.Group != "" && d.QueueID != ""
}
