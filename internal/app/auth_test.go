package app_test

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
)

func TestListenersOffLoopbackNeedAuthenticationOrAuthOff(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("tokens: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     string // the refusal; empty: it starts
	}{
		{"on loopback everybody may call", map[string]any{}, ""},
		{"REST on every address", map[string]any{"http_addr": ":0"}, "HTTP_ADDR: :0 is reachable from other machines"},
		{"gRPC on every address", map[string]any{"grpc_addr": "0.0.0.0:0"}, "GRPC_ADDR: 0.0.0.0:0 is reachable"},
		{"IPv6", map[string]any{"grpc_addr": "[::]:0"}, "GRPC_ADDR: [::]:0 is reachable"},
		{"said in words", map[string]any{"http_addr": "0.0.0.0:0", "auth": "off"}, ""},
		{"with tokens", map[string]any{"http_addr": "0.0.0.0:0", "auth_tokens_file": tokens}, ""},
		{"with a tokens file that is not there", map[string]any{"auth_tokens_file": tokens + ".none"}, "AUTH_TOKENS_FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := map[string]any{"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "executor_url": "http://127.0.0.1:1", "workflow_store": "none"}
			for name, value := range c.settings {
				settings[name] = value
			}
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			app.Flags(fs, nil)
			cfg, err := app.Load(fs, settings)
			if err != nil {
				t.Fatal(err)
			}
			a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
			if err == nil {
				_ = a.Close()
			} else if _, statErr := os.Stat(filepath.Join(settings["data_dir"].(string), "carillon.db")); statErr == nil && strings.Contains(c.want, "can be reached") {
				t.Error("the database was opened, and migrated, by a process that may not start")
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v; want %q", err, c.want)
			}
		})
	}
}

func TestDevWithoutAuthenticationNeedsLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings map[string]any
		refused  bool
	}{
		{"as it is", map[string]any{}, false},
		{"REST on every address", map[string]any{"http_addr": ":8080", "auth": "off"}, true},
		{"gRPC on every address", map[string]any{"grpc_addr": "0.0.0.0:9090", "auth": "off"}, true},
		{"for who shows a token", map[string]any{"http_addr": ":8080", "auth_tokens_file": "tokens.yaml", "local_executor_roles": "operator"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			app.Flags(fs, nil)
			all := map[string]any{"executor": "local"}
			maps.Copy(all, c.settings)
			cfg, err := app.Load(fs, all)
			if err != nil {
				t.Fatal(err)
			}
			if err := cfg.CheckDev(); (err != nil) != c.refused {
				t.Errorf("%v, want a refusal: %v", err, c.refused)
			}
		})
	}
}

func TestContradictorySettingsOfAuthenticationAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"on without a way in", map[string]string{"AUTH": "on"}, "AUTH: on has no way to authenticate"},
		{"off with a way in", map[string]string{"AUTH": "off", "AUTH_TOKENS_FILE": "x"}, "AUTH: off contradicts"},
		{"an issuer without keys", map[string]string{"AUTH_JWT_ISSUER": "x"}, "AUTH_JWKS_URL: is required"},
		{"keys without an issuer", map[string]string{"AUTH_JWT_KEYS_FILE": "x", "AUTH_JWT_AUDIENCE": "a"}, "AUTH_JWT_ISSUER: is required"},
		{"keys without an audience", map[string]string{"AUTH_JWT_KEYS_FILE": "x", "AUTH_JWT_ISSUER": "i"}, "AUTH_JWT_AUDIENCE: is required"},
		{"keys over plain http", map[string]string{"AUTH_JWKS_URL": "http://id.example/keys", "AUTH_JWT_ISSUER": "i", "AUTH_JWT_AUDIENCE": "a"}, "is not https"},
		{"HS256 beside others", map[string]string{"AUTH_JWT_KEYS_FILE": "x", "AUTH_JWT_ISSUER": "i", "AUTH_JWT_AUDIENCE": "a", "AUTH_JWT_ALGORITHMS": "HS256,RS256"}, "HS256 cannot be combined"},
		{"an unknown algorithm", map[string]string{"AUTH_JWT_KEYS_FILE": "x", "AUTH_JWT_ISSUER": "i", "AUTH_JWT_AUDIENCE": "a", "AUTH_JWT_ALGORITHMS": "none"}, `"none" is not one of`},
		{"a certificate without its key", map[string]string{"TLS_CERT_FILE": "x"}, "set both or neither"},
		{"an authority without TLS", map[string]string{"TLS_CLIENT_CA_FILE": "x"}, "needs TLS_CERT_FILE"},
		{"certificates demanded of nobody's", map[string]string{"TLS_CLIENT_AUTH": "required"}, "needs TLS_CLIENT_CA_FILE"},
		{"roles without an authority", map[string]string{"AUTH_MTLS_ROLES": "spiffe://x/w=worker"}, "AUTH_MTLS_ROLES: needs TLS_CLIENT_CA_FILE"},
		{"roles that are none", map[string]string{"AUTH_MTLS_ROLES": "spiffe://x/w=root"}, "AUTH_MTLS_ROLES: "},
		{"a launcher's authority without TLS", map[string]string{"LAUNCHER_CA_FILE": "x"}, "LAUNCHER_TLS: is off"},
		{"a launcher's token in the clear", map[string]string{"LAUNCHER_ADDR": "launcher:9090", "LAUNCHER_TOKEN": "hush"}, "unencrypted to launcher:9090"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, err := load(t)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("error is %v; want it to say %q", err, c.want)
			}
		})
	}
}
