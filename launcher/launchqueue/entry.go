package launchqueue

import (
	"fmt"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// The streams and their one consumer group. A deployment has a Redis database
// of its own: its runs are nobody else's.
const (
	launches = "carillon:launches"
	catchup  = "carillon:catchup"
	cancels  = "carillon:cancels"
	group    = "launchers"
)

// streams are the three with their labels in figures.
var streams = []struct{ name, label string }{{launches, "launches"}, {catchup, "catchup"}, {cancels, "cancels"}}

// readMark is the key that each launcher which reads the queue sets anew every
// second. What Redis itself knows of a group's consumers does not tell a reader
// that finds nothing from one that is gone, in versions before 7.2.
const readMark = "carillon:launchers"

// streamOf keeps what is made up for apart: a storm of it must not stand before
// slots that are on time.
func streamOf(trigger schedule.Trigger) string {
	if trigger.AfterOthers() {
		return catchup
	}
	return launches
}

// An entry has two fields: the version of its format, and a message of
// carillon.v1.RunLauncher, RunLauncherCancelRequest among the
// cancels, else RunLauncherStartRequest. What the message grows by, older
// readers pass over; what they must not pass over is another version.
const (
	versionField = "v"
	bodyField    = "body"
	version      = "1"
)

// entry is what is to be put into a stream.
type entry struct {
	stream string
	key    schedule.Key
	body   []byte
}

// mark is the key under which Redis remembers which entry of a stream is a
// run's.
func (e *entry) mark() string { return e.stream + ":" + e.key.String() }

func startEntry(req schedule.StartRequest) (entry, error) {
	body, err := proto.Marshal(wire.Start(req))
	return entry{streamOf(req.Trigger), req.Key, body}, err
}

func cancelEntry(req schedule.CancelRequest) (entry, error) {
	body, err := proto.Marshal(wire.Cancel(req))
	return entry{cancels, req.Key, body}, err
}

func readStart(m redis.XMessage) (schedule.StartRequest, error) {
	msg := &carillonv1.RunLauncherStartRequest{}
	if err := readBody(m, msg); err != nil {
		return schedule.StartRequest{}, err
	}
	return wire.StartRequest(msg)
}

func readCancel(m redis.XMessage) (schedule.CancelRequest, error) {
	msg := &carillonv1.RunLauncherCancelRequest{}
	if err := readBody(m, msg); err != nil {
		return schedule.CancelRequest{}, err
	}
	return wire.CancelRequest(msg)
}

func readBody(m redis.XMessage, into proto.Message) error {
	if v, _ := m.Values[versionField].(string); v != version {
		return fmt.Errorf("entry %s is of version %q; this binary reads version %s", m.ID, v, version)
	}
	body, _ := m.Values[bodyField].(string)
	if err := proto.Unmarshal([]byte(body), into); err != nil {
		return fmt.Errorf("entry %s: %w", m.ID, err)
	}
	return nil
}
