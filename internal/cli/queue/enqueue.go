package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/cli/run"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewEnqueueCommand is enqueue.
func NewEnqueueCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	var file, input string
	var wait run.Wait
	var unique func() *carillonv1.UniqueKey
	flagged := &carillonv1.EnqueueRunRequest{}
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE",
		Short: "Put runs into a dispatch queue",
		Long: "Puts a run of a schedule or of a workflow version into a queue. With -f the run is JSON with the API's field\n" +
			"names; flags then replace single fields. A file with several JSON values, such as JSON Lines, is a batch of up\n" +
			"to 5000 runs: all of them enter the queue, or none. The queue \"default\" is made at its first use.\n\n" +
			"With --unique no run is added while another one holds the key: the output is the key of that run.\n\n" +
			"With --wait the command returns when the run and its automatic retries have ended: with 0 if the run succeeded, 10\n" +
			"FAILED, 11 SKIPPED, 12 CANCELLED, and 13 if the time is over, or Ctrl-C came, and the run goes on. A restart of the\n" +
			"server does not end the wait; if none answers for a minute, or for all of the time, the code is 1.",
		Example: "  carillon enqueue gpu --workflow resize --version 3 --user ada --input '{\"image\": 17}'\n" +
			"  carillon enqueue gpu --schedule nightly --priority 10 --wait=30m\n" +
			"  carillon enqueue gpu -f job.json --request-id order-17\n" +
			"  carillon enqueue search --workflow index --version 1 --unique doc-7 --on-duplicate replace --debounce 5s\n" +
			"  carillon enqueue mail --user ops -f - < jobs.jsonl",
		Args: wait.Args(command.ExactArgs("QUEUE")),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			flagged.QueueId, flagged.Unique = args[0], unique()
			if input != "" {
				raw, err := o.Content(input)
				if err != nil {
					return err
				}
				flagged.Input = raw
			}
			values, err := o.JSONValues(file)
			if err != nil {
				return err
			}
			if len(values) > 1 {
				return enqueueBatch(ctx, o, l, flagged, values, wait)
			}
			req := &carillonv1.EnqueueRunRequest{}
			if len(values) == 1 {
				if err := rawjson.Unmarshal(values[0], req); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			proto.Merge(req, flagged)
			if wait.On {
				return enqueueAndWait(ctx, o, l, req, wait)
			}
			return enqueueOne(ctx, o, l, req)
		}),
	}
	f := cmd.Flags()
	unique = entryFlags(f, flagged)
	wait.Register(f, "wait until the run and its automatic retries have ended, for a `DURATION` at most (default: any time)")
	f.StringVarP(&file, "file", "f", "", "`FILE` with a run as JSON, or several as JSON Lines; - is standard input")
	f.StringVar(&input, "input", "", "`JSON` for the executor, or @FILE")
	o.Flags(cmd)
	o.CompleteArg(cmd, client.QueueIDs)
	return o.CompleteFlags(cmd)
}

func enqueueOne(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.EnqueueRunRequest) error {
	resp, err := client.Call(ctx, l, l.Queues().EnqueueRun, req)
	if err != nil {
		return err
	}
	return o.Show(resp, func(p *render.Page) { writeEnqueued(p, resp) })
}

// enqueueAndWait puts a run into a queue and waits for its end. wait_ms keeps the row of the run, also
// where history has only failures.
func enqueueAndWait(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.EnqueueRunRequest, wait run.Wait) error {
	req.WaitMs = 1
	resp, err := run.Request(ctx, l, &wait, &req.RequestId, l.Queues().EnqueueRun, req)
	if err != nil {
		return err
	}
	return run.ShowRequested(ctx, o, l, resp, &resp.Run, wait)
}

// entryFlags are the flags of a run's fields. unique is its unique key, once they are parsed.
func entryFlags(f *pflag.FlagSet, req *carillonv1.EnqueueRunRequest) (unique func() *carillonv1.UniqueKey) {
	f.StringVar(&req.ScheduleId, "schedule", "", "`ID` of the schedule that the run belongs to")
	f.StringVar(&req.WorkflowId, "workflow", "", "`ID` of the workflow, instead of a schedule")
	f.Int32Var(&req.Version, "version", 0, "`NUMBER` of the workflow's version")
	f.StringVar(&req.ExecutionGrantId, "grant", "", "`ID` of the execution grant, with --workflow")
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner (default: that of the schedule, or of a queue that is not shared)")
	f.Func("priority", "`NUMBER`; higher goes first (default: the schedule's)", command.Int32(&req.Priority))
	f.Func("position", "`PLACE` among the waiting runs of its priority, 1 = next (default: the end)", command.Uint32(&req.Position))
	f.BoolVar(&req.Next, "next", false, "the same as --position 1")
	f.Func("at", "earliest start: a `TIME` (RFC 3339)", command.Time(&req.RunAt))
	f.Func("in", "earliest start, from now: a `DURATION`", command.Millis(&req.DelayMs))
	f.Func("max-attempts", "`NUMBER` of attempts in all (default: as the retry policy of the schedule says, else that of the queue, else DEFAULT_MAX_ATTEMPTS)", command.Uint32(&req.MaxAttempts))
	f.Func("expires", "`DURATION` for which it may wait for its first start (default: that of the schedule, else of the queue)", command.Millis(&req.ExpiresMs))
	f.StringSliceVar(&req.Limits, "limit", nil, "`LIMIT` that the run uses: its id, or ID=KEY; may be repeated")
	f.StringVar(&req.Webhook, "webhook", "", "`NAME` of the target that is told of its end (default: the queue's)")
	f.Func("fair-key", "`KEY` that the run counts for in a fair queue (default: the schedule's, else the owner)", command.FairKey(&req.FairKey))
	f.StringVar(&req.GroupId, "group", "", "`ID` of the group that the run joins")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe: the same one gives the same run")
	return uniqueFlags(f)
}

func writeEnqueued(p *render.Page, resp *carillonv1.EnqueueRunResponse) {
	r := resp.GetRun()
	p.Line("%s", r.GetIdempotencyKey())
	switch {
	case resp.GetRepeated():
		p.Line("the request was made before; the run is %s", r.GetStatus())
	case resp.GetReplaced() && r.GetQueueState() == "delayed":
		p.Line("this run holds the unique key and was replaced; it starts not before %s", p.When(r.GetFireAt()))
	case resp.GetReplaced():
		p.Line("this run holds the unique key and was replaced")
	case resp.GetDuplicate():
		p.Line("this run holds the unique key: nothing was added; it is %s", r.GetStatus())
	case r.GetQueueState() == "delayed":
		p.Line("in queue %s, starts not before %s", r.GetQueueId(), p.When(r.GetFireAt()))
	case r.GetPosition() > 0:
		p.Line("in queue %s, position %d of priority %d", r.GetQueueId(), r.GetPosition(), r.GetPriority())
	default:
		p.Line("in queue %s, %s", r.GetQueueId(), cmp.Or(r.GetQueueState(), r.GetStatus()))
	}
}

// enqueueBatch puts all values into the queue. Flags that describe a run replace those of each.
func enqueueBatch(ctx context.Context, o *client.Client, l *client.Link, flagged *carillonv1.EnqueueRunRequest, values [][]byte, wait run.Wait) error {
	if flagged.GetGroupId() != "" {
		return errors.New("--group is for one run; add several with `carillon group add`")
	}
	if wait.On {
		return errors.New("--wait waits for one run; follow a batch with `carillon run watch`")
	}
	req := &carillonv1.EnqueueRunsRequest{
		QueueId: flagged.GetQueueId(), UserId: flagged.GetUserId(), RequestId: flagged.GetRequestId(), Position: flagged.Position, Next: flagged.GetNext(),
	}
	each := &carillonv1.NewQueuedRun{}
	fields := each.ProtoReflect().Descriptor().Fields()
	flagged.ProtoReflect().Range(func(given protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field := fields.ByName(given.Name()); field != nil { // others are of the request
			each.ProtoReflect().Set(field, v)
		}
		return true
	})
	for i, value := range values {
		one := &carillonv1.NewQueuedRun{}
		if err := rawjson.Unmarshal(value, one); err != nil {
			return fmt.Errorf("value %d: %w", i+1, err)
		}
		proto.Merge(one, each)
		req.Runs = append(req.Runs, one)
	}
	resp, err := client.Call(ctx, l, l.Queues().EnqueueRuns, req)
	if err != nil {
		return err
	}
	return o.Show(resp, func(p *render.Page) {
		if resp.GetRepeated() {
			p.Line("the request was made before: its %s", render.Count(len(resp.GetIdempotencyKeys()), "run"))
		} else {
			p.Line("%s in queue %s", render.Count(len(resp.GetIdempotencyKeys())-len(resp.GetDuplicates()), "run"), req.GetQueueId())
		}
		if n := len(resp.GetDuplicates()); n > 0 {
			p.Line("%s not added: other runs hold their unique keys, %d of them replaced", render.Count(n, "run"), len(resp.GetReplaced()))
		}
		for _, key := range resp.GetIdempotencyKeys() {
			p.Line("%s", key)
		}
	})
}
