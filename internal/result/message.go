package result

import (
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Committed is a message with the commit of a run.
type Committed interface {
	GetState() []byte
	GetPublish() []*carillonv1.NewEvent
}

// CommitIn is CommitOf a message.
func CommitIn(key schedule.Key, msg Committed) (*schedule.Commit, error) {
	sent := make([]NewEvent, len(msg.GetPublish()))
	for i, e := range msg.GetPublish() {
		sent[i] = NewEvent{Topic: e.GetTopic(), EventID: e.GetEventId(), Source: e.GetSource(), Type: e.GetType(), Subject: e.GetSubject(), Data: e.GetData()}
		if at := e.GetTime(); at.IsValid() {
			sent[i].Time = at.AsTime()
		}
	}
	return CommitOf(key, msg.GetState(), sent)
}
