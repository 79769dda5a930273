package launchqueue

import (
	"fmt"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// The streams and their consumer group. Deployments must not share a Redis
// database: the names are the same in each.
const (
	launches = "carillon:launches"
	catchup  = "carillon:catchup"
	cancels  = "carillon:cancels"
	group    = "launchers"
)

// streams has the streams and their labels in metrics.
var streams = []struct{ name, label string }{{launches, "launches"}, {catchup, "catchup"}, {cancels, "cancels"}}

// readMark is a key that every launcher that reads the queue sets each second.
// Before version 7.2, Redis cannot tell an idle consumer of a group from one that
// is gone.
const readMark = "carillon:launchers"

// streamOf separates catch-up and backfill runs, so that many of them do not delay
// on-time runs.
func streamOf(trigger schedule.Trigger) string {
	if trigger.AfterOthers() {
		return catchup
	}
	return launches
}

// An entry has two fields: the version of its format and a message of
// carillon.v1.RunLauncher, a RunLauncherCancelRequest in the stream of cancels,
// else a RunLauncherStartRequest. Older readers ignore new fields of the message.
// A change that they must not ignore needs another version.
const (
	versionField = "v"
	bodyField    = "body"
	version      = "1"
)

// entry is an entry that is not in Redis yet.
type entry struct {
	stream string
	key    schedule.Key
	body   []byte
	number int // of the run in StartAll
}

// mark is the Redis key that holds the id of the run's entry in the stream.
func (e *entry) mark() string { return e.stream + ":" + e.key.String() }

func startEntry(req *schedule.StartRequest) (entry, error) {
	body, err := proto.Marshal(wire.Start(req))
	return entry{stream: streamOf(req.Trigger), key: req.Key, body: body}, err
}

func cancelEntry(req schedule.CancelRequest) (entry, error) {
	body, err := proto.Marshal(wire.Cancel(req))
	return entry{stream: cancels, key: req.Key, body: body}, err
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
