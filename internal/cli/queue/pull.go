package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// How often pull asks.
const (
	longestFetch   = 20 * time.Second
	beatsPerSpan   = 3 // heartbeats within heartbeat_ms
	firstHeartbeat = 10 * time.Second
	cancelsHeard   = 2 * time.Second // at the latest
)

// NewPullCommand is pull.
func NewPullCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	p := &pulling{o: o, process: c, heartbeat: firstHeartbeat, running: make(map[string]*pulledRun), ended: make(chan *pulledRun)}
	cmd := &cobra.Command{
		Use:   "pull QUEUE -- COMMAND [ARGUMENT...]",
		Short: "Fetch runs of a dispatch queue, and run a command for each of them",
		Long: "Is a worker of a queue of delivery pull: fetches runs, and runs the command once for each of them, with the input\n" +
			"on its standard input. Exit code 0 is SUCCESS, any other FAILED. Also set are CARILLON_KEY, CARILLON_QUEUE_ID,\n" +
			"CARILLON_SCHEDULE_ID, CARILLON_WORKFLOW_ID, CARILLON_VERSION, CARILLON_USER_ID, CARILLON_ATTEMPT, CARILLON_TRIGGER\n" +
			"and CARILLON_RUN_AT. What the command writes appears here, and its end is kept with the run. A cancelled run gets\n" +
			"SIGTERM, and SIGKILL after --grace.\n\n" +
			"SIGINT and SIGTERM stop fetching; commands that run may end first. If this process dies, its runs fail after\n" +
			"heartbeat_ms of the queue (reason lost), and are retried.",
		Example: "  carillon queue upsert mail --user ada --delivery pull\n" +
			"  carillon pull mail -- ./send-mail\n" +
			"  carillon pull gpu --slots 4 -- python job.py",
		Args: queueAndCommand,
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			p.l, p.queue, p.words = l, args[0], args[1:]
			return p.run(ctx)
		}),
	}
	f := cmd.Flags()
	f.Uint32Var(&p.slots, "slots", 1, "`NUMBER` of commands at the same time, at most 1000")
	f.StringVar(&p.worker, "worker", "", "`ID` of the worker, which no other one has (default: host and process)")
	f.IntVar(&p.left, "runs", 0, "end after a `NUMBER` of runs (default: go on)")
	f.DurationVar(&p.grace, "grace", 10*time.Second, "`DURATION` after which a cancelled command is killed")
	o.ServerFlags(cmd)
	o.CompleteArg(cmd, client.QueueIDs)
	return o.CompleteFlags(cmd)
}

// queueAndCommand are the arguments QUEUE -- COMMAND.
func queueAndCommand(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return errors.New("QUEUE is required")
	case dash > 1 || dash < 0 && len(args) > 1:
		return fmt.Errorf("unexpected argument %q; write -- before the command", args[1])
	case len(args) == 1:
		return errors.New("COMMAND is required, after --")
	}
	return nil
}

// pulling is one worker.
type pulling struct {
	o       *client.Client
	process *command.CLI
	l       *client.Link
	queue   string
	words   []string
	worker  string
	slots   uint32
	left    int // runs to fetch; 0: any number
	grace   time.Duration

	heartbeat time.Duration // of the queue
	running   map[string]*pulledRun
	ended     chan *pulledRun
	outage    time.Time // since when no server answers; zero: one does
}

func (p *pulling) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.process.ErrOut, "carillon: "+format+"\n", args...)
}

func (p *pulling) run(ctx context.Context) error {
	if _, err := exec.LookPath(p.words[0]); err != nil {
		return &codeError{fmt.Errorf("cannot start %s: %w", p.words[0], err), exitNoCommand}
	}
	if p.worker == "" {
		p.worker = workerID()
	}
	p.process.ErrOut = shared(p.process.ErrOut)
	p.process.Out = shared(p.process.Out)
	p.l.Progress.End()
	bounded, fetched := p.left > 0, 0
	for {
		stop := ctx.Err() != nil || bounded && fetched >= p.left
		if stop && len(p.running) == 0 {
			return nil
		}
		slots := p.slots
		if bounded {
			slots = min(slots, uint32(p.left-fetched+len(p.running)))
		}
		if stop {
			slots = uint32(len(p.running))
		}
		n, err := p.fetch(ctx, slots)
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			p.stopAll()
			return err
		}
		fetched += n
		p.rest(ctx, len(p.running) < int(slots))
	}
}

// fetch asks for runs, and starts them. Without a free slot it is a heartbeat.
func (p *pulling) fetch(ctx context.Context, slots uint32) (n int, err error) {
	req := &carillonv1.FetchRunsRequest{QueueId: p.queue, WorkerId: p.worker, Slots: &slots}
	for key := range p.running {
		req.Running = append(req.Running, key)
	}
	asks := ctx
	if len(p.running) < int(slots) {
		req.WaitMs = uint32(min(longestFetch, p.heartbeat/beatsPerSpan, p.l.Timeout()/2).Milliseconds())
	} else {
		asks = context.WithoutCancel(ctx)
	}
	resp, err := client.Call(asks, p.l, p.l.Launchers().FetchRuns, req)
	switch {
	case err == nil:
		p.outage = time.Time{}
	case client.Unanswered(err) && p.patient():
		return 0, sleep(asks, client.MaxPause/2)
	case codeOf(err) == codes.FailedPrecondition && len(p.running) > 0:
		return 0, sleep(asks, time.Second) // runs of another queue take its slots
	default:
		return 0, err
	}
	p.heartbeat = time.Duration(resp.GetHeartbeatMs()) * time.Millisecond
	for _, key := range resp.GetCancel() {
		if run := p.running[key]; run != nil {
			run.cancel()
		}
	}
	for _, run := range resp.GetRuns() {
		if p.running[run.GetIdempotencyKey()] == nil { // an answer may come twice
			p.start(context.WithoutCancel(ctx), run)
			n++
		}
	}
	return n, nil
}

// patient reports whether a server that does not answer is asked again.
func (p *pulling) patient() bool {
	now := time.Now()
	p.outage = cmp.Or(p.outage, now)
	return len(p.running) > 0 || now.Sub(p.outage) <= client.OutageTimeout
}

// rest waits for an end, a signal or the next heartbeat. With a free slot the next fetch waits at the
// server instead.
func (p *pulling) rest(ctx context.Context, free bool) {
	pause := min(p.heartbeat/beatsPerSpan, cancelsHeard)
	if free && ctx.Err() == nil {
		pause = 0
	}
	var stopped <-chan struct{}
	if ctx.Err() == nil {
		stopped = ctx.Done()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case run := <-p.ended:
		delete(p.running, run.GetIdempotencyKey())
	case <-timer.C:
	case <-stopped:
	}
	for {
		select {
		case run := <-p.ended:
			delete(p.running, run.GetIdempotencyKey())
			continue
		default:
		}
		return
	}
}

// stopAll ends the commands: nobody waits for their results any more.
func (p *pulling) stopAll() {
	for _, run := range p.running {
		run.cancel()
	}
	for range len(p.running) {
		<-p.ended
	}
}

// workerID is a name that no other worker has.
func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%.80s.%d.%.8s", host, os.Getpid(), strings.ToLower(rand.Text()))
}
