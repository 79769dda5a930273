package grpcexecutor

import "testing"

// An internal test: what a name off this machine would be called with cannot
// be seen from outside without one.
func TestOffThisMachineCallsAreEncrypted(t *testing.T) {
	for target, want := range map[string]string{
		"127.0.0.1:1": "insecure", "127.9.9.9:1": "insecure", "[::1]:1": "insecure", "localhost:1": "insecure",
		"dns:///localhost:1": "insecure", "unix:///run/e.sock": "insecure",
		"10.0.0.1:1": "tls", "executor:1": "tls", "dns:///executor:1": "tls", "localhost.example:1": "tls",
	} {
		if got := (Config{Target: target}).credentials().Info().SecurityProtocol; got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if got := (Config{Target: "executor:1", Plaintext: true}).credentials().Info().SecurityProtocol; got != "insecure" {
		t.Errorf("with Plaintext: %s", got)
	}
}
