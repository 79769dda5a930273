package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/cli/run"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewCommand is queue with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("queue", "Create, show, pause, close and delete dispatch queues")
	cmd.Aliases = []string{"queues"}
	cmd.Long = "Runs of a dispatch queue wait in order of priority and position, and at most max_in_flight of them are with\n" +
		"the executor at the same time. `carillon enqueue` puts runs into a queue."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(
		o.CompleteArg(newUpsertCommand(o), client.QueueIDs), o.CompleteArg(o.WithWatch(newGetCommand(o)), client.QueueIDs), o.WithWatch(newListCommand(o)),
		o.CompleteArg(o.WithWatch(newWaitingCommand(o)), client.QueueIDs), o.CompleteArg(newPauseCommand(o), client.QueueIDs), o.CompleteArg(newResumeCommand(o), client.QueueIDs),
		o.CompleteArg(newCloseCommand(o), client.QueueIDs), o.CompleteArg(newOpenCommand(o), client.QueueIDs), o.CompleteArg(newDeleteCommand(o), client.QueueIDs),
		o.CompleteArg(run.NewRedriveOfQueueCommand(o), client.QueueIDs), o.CompleteArg(run.NewCancelQueueCommand(o), client.QueueIDs), o.CompleteArg(newSimulateCommand(o), client.QueueIDs),
		o.CompleteArg(o.WithWatch(newEventsCommand(o)), client.QueueIDs),
		o.CompleteArg(o.WithWatch(newReservationsCommand(o)), client.QueueIDs), newReleaseCommand(o),
	)
	return o.CompleteFlags(cmd)
}

func newUpsertCommand(o *client.Client) *cobra.Command {
	var file string
	flagged := &carillonv1.UpsertQueueRequest{}
	var timeout, promote *uint32
	cmd := &cobra.Command{
		Use:   "upsert [ID]",
		Short: "Create a queue, or replace its whole definition",
		Long: "Creates a queue or replaces its whole definition. Unset fields take their defaults. A pause, and the runs in\n" +
			"the queue, stay. The same definition again changes nothing. With -f the definition is JSON or YAML with the\n" +
			"API's field names; flags then replace single fields.",
		Example: "  carillon queue upsert gpu --user ada --max-in-flight 2\n" +
			"  carillon queue upsert mail --user ops --shared --max-in-flight 20 --max-waiting 10000\n" +
			"  carillon queue upsert -f gpu.yaml",
		Args: command.Args(nil, 1),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req := &carillonv1.UpsertQueueRequest{}
			if file != "" {
				if err := readMessage(o.CLI, file, req); err != nil {
					return err
				}
			}
			replaceAdded(req, flagged)
			proto.Merge(req, flagged)
			if timeout != nil {
				req.RunTimeoutMs = *timeout
			}
			if promote != nil {
				req.PromoteAfterMs = *promote
			}
			if len(args) > 0 {
				req.QueueId = args[0]
			}
			return client.ShowAnswer(ctx, o, l, l.Queues().UpsertQueue, req, func(p *render.Page, resp *carillonv1.UpsertQueueResponse) {
				q := resp.GetQueue()
				p.Line("%s: revision %d, %s in flight at most", q.GetQueueId(), q.GetRevision(), render.Count(int(q.GetMaxInFlight()), "run"))
			})
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "definition `FILE` as JSON or YAML; - is standard input")
	f.StringVar(&flagged.UserId, "user", "", "`ID` of the owner")
	f.BoolVar(&flagged.Shared, "shared", false, "let other owners put runs into it")
	f.Func("max-in-flight", "`NUMBER` of runs with the executor at the same time (default: DEFAULT_MAX_IN_FLIGHT)", command.Uint32(&flagged.MaxInFlight))
	f.Func("max-reservations", "`NUMBER` of reservations that may wait (default 10)", command.Uint32(&flagged.MaxReservations))
	f.Func("max-waiting", "`NUMBER` of waiting runs at which new ones are refused (default 100000); 0 = any", command.Uint32(&flagged.MaxWaiting))
	boundFlags(f, flagged, &timeout)
	f.Func("backpressure", "what waits while the executor cannot take a run: `queue` (default) or run", command.Text(&flagged.Backpressure))
	f.Func("promote-after", "`DURATION` after which a run passes runs of higher priorities, every second start at most (default: never)", command.Millis(&promote))
	historyFlag(cmd, flagged)
	fairFlags(cmd, flagged)
	pullFlags(cmd, flagged)
	command.RateFlags(cmd, &flagged.Rate)
	f.StringSliceVar(&flagged.Limits, "limit", nil, "`LIMIT` that each run uses: its id, or ID=KEY; may be repeated")
	f.Func("label", "`NAME=VALUE`; may be repeated", command.Label(&flagged.Labels))
	f.StringVar(&flagged.Webhook, "webhook", "", "`NAME` of the target that is told of the ends of runs")
	f.Func("webhook-event", "`TYPE` of message to send, such as run.failed; may be repeated (default: all except run.retrying)", func(word string) error {
		flagged.WebhookEvents = append(flagged.WebhookEvents, word)
		return nil
	})
	f.StringVar(&flagged.ManagedBy, "managed-by", "", "`NAME` of the tool that manages the queue")
	return completeUpsert(cmd)
}

// boundFlags are the flags of how long runs may take and wait, how often they are tried, and what the
// queue promises.
func boundFlags(f *pflag.FlagSet, req *carillonv1.UpsertQueueRequest, timeout **uint32) {
	f.Func("run-timeout", "`DURATION` after which a run without a report fails (default: that of its schedule)", command.Millis(timeout))
	f.Func("max-run", "`DURATION` after its acceptance at which a run fails, for runs whose schedule has none (default: never)", command.Millis(&req.MaxRunMs))
	f.Func("expires", "`DURATION` for which a run may wait that has no bound of its own (default: any)", command.Millis(&req.ExpiresMs))
	expectFlags(f, req)
	command.RetryFlags(f, &req.Retry, command.RetryDefaults{Attempts: "DEFAULT_MAX_ATTEMPTS", Backoff: "DEFAULT_BACKOFF_MS", MaxBackoff: "DEFAULT_MAX_BACKOFF_MS"})
}

// historyFlag is the flag of what history keeps.
func historyFlag(cmd *cobra.Command, req *carillonv1.UpsertQueueRequest) {
	cmd.Flags().Func("history", "which ends of runs have a row: `all` (default), or failed, which only counts successes", command.Text(&req.History))
	command.CompleteValues(cmd, "history", []string{"all", "failed"})
}

// readMessage reads a request: JSON if the text begins with a brace, else YAML.
func readMessage(c *command.CLI, name string, into proto.Message) error {
	text, err := c.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if text, err = render.JSONFromYAML(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := rawjson.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func newGetCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show a queue and how many runs are in it",
		Example: "  carillon queue get gpu",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Queues().GetQueue, &carillonv1.GetQueueRequest{QueueId: args[0]},
				func(p *render.Page, resp *carillonv1.GetQueueResponse) { writeQueue(p, resp.GetQueue()) })
		}),
	}
}

// state is what keeps a queue from starting or taking runs.
func state(p *render.Page, q *carillonv1.Queue) string {
	if q.GetUnreadable() {
		return "unreadable definition"
	}
	var words []string
	if q.GetPaused() {
		words = append(words, until(p, "paused", q.GetPausedUntil()))
	}
	if q.GetClosed() {
		words = append(words, "closed")
	}
	if q.GetStalledUntil() != nil {
		words = append(words, until(p, "stalled", q.GetStalledUntil()))
	}
	return cmp.Or(strings.Join(words, ", "), "open")
}

// until is a word with the end of the state that it names, if there is one.
func until(p *render.Page, word string, end *timestamppb.Timestamp) string {
	if end == nil {
		return word
	}
	return word + " until " + p.When(end)
}

func inFlight(q *carillonv1.Queue) string {
	if q.GetReserved() > 0 {
		return fmt.Sprintf("%d and %s, of %d", q.GetInFlight(), render.Count(int(q.GetReserved()), "reservation"), q.GetMaxInFlight())
	}
	return fmt.Sprintf("%d of %d", q.GetInFlight(), q.GetMaxInFlight())
}

func writeQueue(p *render.Page, q *carillonv1.Queue) {
	timeout, limit := "that of the run's schedule", fmt.Sprint(q.GetMaxWaiting())
	if q.GetRunTimeoutMs() > 0 {
		timeout = render.Millis(q.GetRunTimeoutMs())
	}
	if q.GetMaxWaiting() == 0 {
		limit = "any number"
	}
	shared, reserving := "", ""
	if q.GetReserving() > 0 {
		reserving = fmt.Sprint(q.GetReserving())
	}
	if q.GetShared() {
		shared = "with all owners"
	}
	p.Fields(
		[2]string{"queue", q.GetQueueId()},
		[2]string{"state", state(p, q)},
		[2]string{"stalled by", q.GetStallReason()},
		[2]string{"note", q.GetPauseNote()},
		[2]string{"paused by", q.GetPausedBy()},
		[2]string{"waiting", fmt.Sprint(q.GetWaiting())},
		[2]string{"oldest entered", p.When(q.GetOldestEnqueuedAt())},
		[2]string{"schedules", strings.Join(q.GetSchedules(), ", ")},
		[2]string{"delayed", fmt.Sprint(q.GetDelayed())},
		[2]string{"in flight", inFlight(q)},
		[2]string{"starts a minute", fmt.Sprint(q.GetStartsPerMinute())},
		[2]string{"ends a minute", fmt.Sprint(q.GetEndsPerMinute())},
		[2]string{"waiting reservations", reserving},
		[2]string{"max reservations", fmt.Sprint(q.GetMaxReservations())},
		[2]string{"max waiting", limit},
		[2]string{"promote after", render.Bound(q.GetPromoteAfterMs())},
		[2]string{"fair", fairness(q)},
		[2]string{"shares", shares(q)},
		[2]string{"delivery", q.GetDelivery()},
		[2]string{"heartbeat", render.Bound(q.GetHeartbeatMs())},
		[2]string{"may fetch", strings.Join(q.GetWorkers(), ", ")},
		[2]string{"workers", fetching(p, q)},
		[2]string{"rate", render.Rate(q.GetRate())},
		[2]string{"limits", strings.Join(q.GetLimits(), ", ")},
		[2]string{"owner", q.GetUserId()},
		[2]string{"shared", shared},
		[2]string{"run timeout", timeout},
		[2]string{"max run", render.Bound(q.GetMaxRunMs())},
		[2]string{"expires", render.Bound(q.GetExpiresMs())},
		[2]string{"retries", render.Retry(q.GetRetry())},
		[2]string{"promises", promises(q)},
		[2]string{"backpressure", q.GetBackpressure()},
		[2]string{"history", q.GetHistory()},
		[2]string{"webhook", q.GetWebhook()},
		[2]string{"webhook events", strings.Join(q.GetWebhookEvents(), ", ")},
		[2]string{"labels", render.Labels(q.GetLabels())},
		[2]string{"managed by", q.GetManagedBy()},
		[2]string{"revision", fmt.Sprint(q.GetRevision())},
		[2]string{"created", p.When(q.GetCreatedAt())},
		[2]string{"updated", p.When(q.GetUpdatedAt())},
	)
}

func newPauseCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.PauseQueueRequest{}
	cmd := &cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a queue until it is resumed, or until a time",
		Long:    "Within a second no more runs of the queue are launched. Runs in flight continue, and new runs may enter.",
		Example: "  carillon queue pause gpu --note 'driver update' --until 2h\n  carillon queue pause mail --cancel-waiting",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.QueueId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Queues().PauseQueue, req, func(p *render.Page, resp *carillonv1.PauseQueueResponse) {
				if req.GetCancelWaiting() {
					p.Line("%s cancelled", render.Count(int(resp.GetCancelled()), "waiting run"))
				}
				p.Line("%s %s; %d waiting, %s in flight", args[0], state(p, resp.GetQueue()), resp.GetQueue().GetWaiting(), inFlight(resp.GetQueue()))
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Note, "note", "", "why, for the next reader")
	f.BoolVar(&req.CancelWaiting, "cancel-waiting", false, "also cancel the runs that wait, of every owner")
	f.Func("until", "end of the pause: a `TIME` (RFC 3339), or a duration such as 2h", o.TimeFromNow(&req.Until, 1))
	return cmd
}

// changed is the body of a command that changes a queue and says so.
func changed[Req any, Resp interface {
	proto.Message
	GetQueue() *carillonv1.Queue
}](o *client.Client, call func(l *client.Link) func(context.Context, Req, ...grpc.CallOption) (Resp, error), request func(queueID string) Req, done string) func(*cobra.Command, []string) error {
	return o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
		return client.ShowAnswer(ctx, o, l, call(l), request(args[0]), func(p *render.Page, resp Resp) {
			p.Line("%s %s; %d waiting", args[0], done, resp.GetQueue().GetWaiting())
		})
	})
}

func newResumeCommand(o *client.Client) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a paused queue",
		Example: "  carillon queue resume gpu",
		Args:    command.ExactArgs("ID"),
		RunE: changed(o, func(l *client.Link) func(context.Context, *carillonv1.ResumeQueueRequest, ...grpc.CallOption) (*carillonv1.ResumeQueueResponse, error) {
			return l.Queues().ResumeQueue
		}, func(id string) *carillonv1.ResumeQueueRequest {
			return &carillonv1.ResumeQueueRequest{QueueId: id, Note: note}
		}, "resumed"),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the log of the queue")
	return cmd
}

func newCloseCommand(o *client.Client) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:     "close ID",
		Short:   "Refuse new runs; those in the queue go on",
		Example: "  carillon queue close gpu --note 'moving to gpu2'",
		Args:    command.ExactArgs("ID"),
		RunE: changed(o, func(l *client.Link) func(context.Context, *carillonv1.CloseQueueRequest, ...grpc.CallOption) (*carillonv1.CloseQueueResponse, error) {
			return l.Queues().CloseQueue
		}, func(id string) *carillonv1.CloseQueueRequest {
			return &carillonv1.CloseQueueRequest{QueueId: id, Note: note}
		}, "closed"),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the log of the queue")
	return cmd
}

func newOpenCommand(o *client.Client) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:     "open ID",
		Short:   "Take new runs again",
		Example: "  carillon queue open gpu",
		Args:    command.ExactArgs("ID"),
		RunE: changed(o, func(l *client.Link) func(context.Context, *carillonv1.OpenQueueRequest, ...grpc.CallOption) (*carillonv1.OpenQueueResponse, error) {
			return l.Queues().OpenQueue
		}, func(id string) *carillonv1.OpenQueueRequest {
			return &carillonv1.OpenQueueRequest{QueueId: id, Note: note}
		}, "opened"),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the log of the queue")
	return cmd
}

func newDeleteCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.DeleteQueueRequest{}
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a queue without runs, or with --force cancel what is in it",
		Example: "  carillon queue delete gpu\n" +
			"  carillon queue delete gpu --force --note 'wrong jobs'",
		Args: command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.QueueId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Queues().DeleteQueue, req, func(p *render.Page, resp *carillonv1.DeleteQueueResponse) {
				if !req.GetForce() {
					p.Line("%s deleted", args[0])
					return
				}
				p.Line("%s deleted; %s cancelled, %d more asked to stop", args[0], render.Count(int(resp.GetCancelled()), "run"), resp.GetCancelRequested())
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&req.Force, "force", false, "cancel the runs in the queue")
	f.StringVar(&req.Note, "note", "", "why, for the log of the queue")
	return cmd
}
