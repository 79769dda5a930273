package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// KindNull is the kind of child that ServeNull is.
const KindNull = "null-launcher"

// Null is a launcher that keeps nothing and answers SUCCESS at once: what a
// queue's handler would call that has its executor elsewhere.
type Null struct {
	carillonv1.UnimplementedRunLauncherServer
	log record.Log
}

// Start notes when the call arrived.
func (n *Null) Start(_ context.Context, r *carillonv1.RunLauncherStartRequest) (*carillonv1.RunLauncherStartResponse, error) {
	now := time.Now()
	slot, err := strconv.ParseUint(r.GetIdempotencyKey()[:16], 16, 64)
	if err != nil {
		return nil, err
	}
	n.log.Note(record.Call{Slot: slot, Due: r.GetScheduledFor().AsTime().UnixNano(), At: now.UnixNano()})
	return &carillonv1.RunLauncherStartResponse{Ok: true, Status: "SUCCESS"}, nil
}

// nullPart answers the harness for a Null.
type nullPart struct {
	null *Null
	addr string
}

// ServeNull serves a Null until the harness closes our input.
func ServeNull(context.Context) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	null := &Null{}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(20_000))
	carillonv1.RegisterRunLauncherServer(server, null)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	err = proc.Serve(&nullPart{null, lis.Addr().String()})
	server.Stop()
	return errors.Join(err, <-served)
}

// Where says where it listens.
func (p *nullPart) Where(_ proc.None, out *string) error {
	*out = p.addr
	return nil
}

// Called says how often it was called.
func (p *nullPart) Called(_ proc.None, out *int) error {
	*out = p.null.log.Len()
	return nil
}

// Calls is its record.
func (p *nullPart) Calls(_ proc.None, out *[]byte) error {
	*out = record.Encode(p.null.log.Calls())
	return nil
}

// nullClient calls a Null from a handler.
type nullClient struct {
	conn *grpc.ClientConn
	rpc  carillonv1.RunLauncherClient
}

func newNullClient(addr string) (*nullClient, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	conn.Connect()
	return &nullClient{conn: conn, rpc: carillonv1.NewRunLauncherClient(conn)}, nil
}

// Close ends the connection.
func (c *nullClient) Close() error { return c.conn.Close() }

// Start calls with as much as Carillon's own worker says.
func (c *nullClient) Start(ctx context.Context, slot uint64, due time.Time) error {
	_, err := c.rpc.Start(ctx, &carillonv1.RunLauncherStartRequest{
		IdempotencyKey: fmt.Sprintf("%016x", slot) + fmt.Sprintf("%048x", due.Unix()),
		ScheduleId:     fmt.Sprint("s", slot>>32), WorkflowId: "bench", Version: 1, UserId: "bench", ScheduledFor: timestamppb.New(due),
	})
	return err
}
