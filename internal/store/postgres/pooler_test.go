package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooled puts a pooler in transaction mode before the Postgres at url: each
// client gets the session that has been idle for longest, and gives it back
// when its transaction ends. It knows no more than the probe of Open needs.
func pooled(t *testing.T, server string, sessions int) string {
	t.Helper()
	p := &pooler{idle: make(chan *pgproto3.Frontend, sessions)}
	for range sessions {
		conn, err := pgconn.Connect(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Conn.Close() })
		p.idle <- raw.Frontend
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var g sync.WaitGroup
	t.Cleanup(func() { cancel(); _ = lis.Close(); g.Wait() })
	g.Go(func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			g.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = client.Close() })()
				defer func() { _ = client.Close() }()
				if err := p.serve(ctx, pgproto3.NewBackend(client, client)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil {
					t.Errorf("pooler: %v", err)
				}
			})
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the test's own URL is none")
	}
	u.Host = lis.Addr().String()
	u.RawQuery = "sslmode=disable"
	return u.String()
}

type pooler struct{ idle chan *pgproto3.Frontend }

func (p *pooler) serve(ctx context.Context, client *pgproto3.Backend) error {
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	for {
		if over, err := p.transaction(ctx, client); over || err != nil {
			return err
		}
	}
}

// transaction passes simple queries through one session until it is idle.
func (p *pooler) transaction(ctx context.Context, client *pgproto3.Backend) (over bool, err error) {
	asked, err := client.Receive()
	if err != nil {
		return true, err
	}
	if _, bye := asked.(*pgproto3.Terminate); bye {
		return true, nil
	}
	var server *pgproto3.Frontend
	select {
	case server = <-p.idle:
	case <-ctx.Done():
		return true, ctx.Err()
	}
	defer func() { p.idle <- server }()
	for {
		query, ok := asked.(*pgproto3.Query)
		if !ok {
			return true, fmt.Errorf("%T is more than this pooler knows", asked)
		}
		server.Send(query)
		if err := server.Flush(); err != nil {
			return true, err
		}
		status := byte(0)
		for status == 0 {
			answer, err := server.Receive()
			if err != nil {
				return true, err
			}
			client.Send(answer)
			if ready, is := answer.(*pgproto3.ReadyForQuery); is {
				status = ready.TxStatus
			}
		}
		if err := client.Flush(); err != nil {
			return true, err
		}
		if status == 'I' {
			return false, nil
		}
		if asked, err = client.Receive(); err != nil {
			return true, err
		}
	}
}
