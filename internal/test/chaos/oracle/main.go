// Command oracle is the executor of the chaos rig: it honours keys, behaves as
// badly as the contract allows, and writes down every request before it acts on
// it, on the disk. It knows nothing of the product but the HTTP contract of
// docs/architecture.md.
//
// It takes no step in a slot's life.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	folder := flag.String("folder", ".", "where the log goes")
	seed := flag.Uint64("seed", 1, "behaviours are drawn from it and the key")
	temper := flag.String("temper", "wild", "wild, or tame: every run is fine")
	grpcAddr := flag.String("grpc", "", "where to listen for gRPC")
	var w worker
	flag.StringVar(&w.id, "worker", "", "be a worker of this name instead, which fetches runs")
	flag.StringVar(&w.queue, "queue", "", "where it fetches them")
	flag.StringVar(&w.servers, "servers", "", "addresses of the processes that answer it, with commas between them")
	flag.IntVar(&w.slots, "slots", 2, "runs that it works on at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := func() error { return serve(ctx, *addr, *grpcAddr, *folder, *seed, *temper == "tame") }
	if w.id != "" {
		work = func() error { return w.work(ctx, *folder, *seed, *temper == "tame") }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, addr, grpcAddr, folder string, seed uint64, tame bool) error {
	o, err := newOracle(ctx, folder, record.ExecutorFile, seed, tame)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run/{workflow}", o.run)
	mux.HandleFunc("DELETE /run/{key}", o.cancel)
	mux.HandleFunc("GET /seen", o.seen)
	mux.HandleFunc("POST /incident", o.fail)
	if grpcAddr != "" {
		o.work.Go(func() {
			if err := o.serveGRPC(ctx, grpcAddr); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "oracle:", err)
				os.Exit(1)
			}
		})
	}
	for ctx.Err() == nil {
		if err := o.listen(ctx, addr, mux); err != nil {
			return err
		}
	}
	o.work.Wait()
	return o.log.Close()
}

// listen serves until ctx ends or the oracle goes down, and then stays down as long as
// it was told.
func (o *oracle) listen(ctx context.Context, addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("oracle is up at", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	var away time.Duration
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-ctx.Done():
			_ = server.Close()
		case away = <-o.down:
			time.Sleep(50 * time.Millisecond) // so that the request that ends it is answered
			_ = server.Close()
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-closed
	o.spend(away)
	return nil
}
