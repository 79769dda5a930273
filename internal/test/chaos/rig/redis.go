package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// flush makes Redis forget everything.
func (s *site) flush(ctx context.Context) error {
	parsed, err := url.Parse(s.redis.URL())
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", parsed.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	password, _ := parsed.User.Password()
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nFLUSHALL\r\n", password); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	for range 2 {
		if answer, err := answers.ReadString('\n'); err != nil || strings.TrimSpace(answer) != "+OK" {
			return fmt.Errorf("FLUSHALL is answered %q: %w", answer, err)
		}
	}
	return nil
}
