// Command compiler releases a workflow as a compiler would: it looks at what
// the release would change, makes the change, and sees the first run through.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dag, err := os.ReadFile("digest.json")
	if err != nil {
		log.Fatal(err)
	}
	// Off loopback: credentials.NewTLS in the place of insecure.
	conn, err := grpc.NewClient(os.Getenv("CARILLON_SERVER"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("CARILLON_TOKEN"))
	if err := release(ctx, conn, dag); err != nil {
		log.Fatal(explain(err))
	}
}

func release(ctx context.Context, conn grpc.ClientConnInterface, dag []byte) error {
	schedules := carillonv1.NewScheduleServiceClient(conn)
	set := &carillonv1.ApplySchedulesRequest{
		Set: "langgraph", Prune: true, DryRun: true,
		Workflows: []*carillonv1.DeployWorkflowRequest{{WorkflowId: "langgraph:digest", Version: 1, UserId: "ada", Dag: dag}},
	}
	would, err := schedules.ApplySchedules(ctx, set)
	if err != nil {
		return err
	}
	for _, c := range would.GetChanges() {
		fmt.Printf("would %s %s: %d runs removed, %d added\n", c.GetAction(), c.GetScheduleId(), c.GetFires().GetRemoved(), c.GetFires().GetAdded())
	}

	set.DryRun, set.RequestId = false, "release-4711" // one id for each release, the same at every attempt
	did, err := again(ctx, func(ctx context.Context) (*carillonv1.ApplySchedulesResponse, error) {
		return schedules.ApplySchedules(ctx, set)
	})
	if err != nil {
		return err
	}
	fmt.Printf("released: changed %t, done before %t\n", did.GetChanged(), did.GetDoneBefore())

	first, err := schedules.TriggerSchedule(ctx, &carillonv1.TriggerScheduleRequest{ScheduleId: "langgraph:digest.hourly", RequestId: "release-4711"})
	if err != nil {
		return err
	}
	run, err := follow(ctx, conn, first.GetRun().GetIdempotencyKey())
	if err != nil {
		return err
	}
	fmt.Printf("%s version %d ended %s\n", run.GetWorkflowId(), run.GetVersion(), run.GetStatus())
	return nil
}

// again repeats a call whose outcome is not known. With a request id that is
// safe: what was done is not done twice.
func again[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		answer, err := call(attempt)
		cancel()
		switch status.Code(err) {
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded:
		default:
			return answer, err
		}
		if wait > 10*time.Second {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// follow asks until the run has ended.
func follow(ctx context.Context, conn grpc.ClientConnInterface, key string) (*carillonv1.Run, error) {
	runs := carillonv1.NewRunServiceClient(conn)
	for {
		answer, err := runs.GetRun(ctx, &carillonv1.GetRunRequest{IdempotencyKey: key})
		if err != nil {
			return nil, err
		}
		switch answer.GetRun().GetStatus() {
		case "SUCCESS", "FAILED", "SKIPPED", "CANCELLED":
			return answer.GetRun(), nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// explain adds the refused fields, each with its place in the request.
func explain(err error) string {
	text := err.Error()
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				text += "\n  " + v.GetField() + ": " + v.GetDescription()
			}
		}
	}
	return text
}
