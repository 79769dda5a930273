package client_test

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/test/services/reserve"
	"github.com/carillon/carillon/launcher/api"
)

// listen serves the launcher at addr until stop.
func listen(t *testing.T, addr string, l api.Launcher) (at string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	server := grpc.NewServer()
	api.Register(server, l, api.Options{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), func() {
		server.Stop()
		<-served
	}
}

func TestStartsGoToTheNextLauncherAtTheAddress(t *testing.T) {
	first := newGated(request(1).Key)
	addr, kill := listen(t, reserve.Addr(t), first)
	c := connect(t, addr)
	open := starting(t.Context(), c, request(0))
	within(t, first.began, "the start")
	kill()
	if err := within(t, open, "what was open"); err == nil {
		t.Error("a start whose launcher was killed has an outcome")
	}
	began := time.Now()
	if _, err := c.Start(t.Context(), request(1)); err == nil || time.Since(began) > testTimeout {
		t.Errorf("with nobody there Start() = %v after %s", err, time.Since(began))
	}
	_, kill = listen(t, addr, newGated(request(0).Key))
	defer kill()
	for began := time.Now(); ; {
		_, err := c.Start(t.Context(), request(0))
		if err == nil {
			break
		}
		if time.Since(began) > testTimeout {
			t.Fatalf("the next launcher is not found: %v", err)
		}
	}
}
