package app_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

func TestGuessableTokensAreRefused(t *testing.T) {
	own := []string{"REPORT_SECRET", "INTERNAL_API_TOKEN", "METRICS_TOKEN"}
	others := []string{"EXECUTOR_TOKEN", "LAUNCHER_TOKEN", "CREDIT_GATE_TOKEN", "ALERT_WEBHOOK_SECRET"}
	every := append(append([]string(nil), own...), others...)
	for _, c := range []struct {
		name     string
		settings []string
		values   []string
		says     string // what the error says behind the name; "" where the value is taken
	}{
		{"one letter", own, []string{"x"}, "has 1 characters, fewer than 16; `openssl rand -hex 32` makes one"},
		{"one character fewer than the least", own, []string{"f00b4r9qzt7wk2m"}, "has 15 characters"},
		{"the least length", own, []string{"f00b4r9qzt7wk2mv"}, ""},
		{"a short one of another service", []string{"EXECUTOR_TOKEN", "CREDIT_GATE_TOKEN"}, []string{"s3kq"}, ""},
		{"the word of an example", every, []string{
			"changeme-changeme", "CHANGE_ME_PLEASE_1", "REPLACE_ME_0123456", "your-secret-here", "change-me-openssl-rand-hex-32",
			"change-me-this-signs-what-executors-report", "my-super-secret-token", "<report secret of mine>", "${REPORT_SECRET_OF_PROD}", "{{ .Values.reportSecret }}",
			"placeholder-placeholder", "secret-token-1234", "test-secret-test-secret", "your_token_goes_here", "admin-password-123", "example-token-0001",
		}, "is a placeholder from an example; `openssl rand -hex 32` makes a value of your own"},
		{"a short word of an example", others, []string{"changeme", "secret", "REPLACE_ME", "token", "password"}, "is a placeholder"},
		{"one character many times", every, []string{"aaaaaaaaaaaaaaaaaaaaaaaa", "0000000000000000"}, "is easy to guess"},
		{"a few characters many times", every, []string{"deadbeefdeadbeef", "abcdabcdabcdabcd"}, "is easy to guess"},
		{"few different characters", own, []string{"aabbabababbabbaab"}, "is easy to guess"},
		{"one that counts up", own, []string{"0123456789abcdef", "abcdefghijklmnop", "1234567890123456"}, "is easy to guess"},
	} {
		for _, setting := range c.settings {
			for _, value := range c.values {
				t.Run(c.name+"/"+setting+"/"+value, func(t *testing.T) {
					if setting == "ALERT_WEBHOOK_SECRET" {
						value = "whsec_" + value
					}
					t.Setenv(setting, value)
					_, err := load(t)
					if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), setting+": "+c.says)) {
						t.Errorf("error %v; want it to say %q", err, c.says)
					}
					if err != nil && len(value) >= 16 && !strings.Contains(c.says, value) && strings.Contains(err.Error(), value) {
						t.Errorf("the error repeats the value: %v", err)
					}
				})
			}
		}
	}
}

func TestRandomTokensAreAccepted(t *testing.T) {
	for range 100 {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw)
		for _, token := range []string{hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(raw[:8]), rand.Text()} {
			t.Setenv("REPORT_SECRET", token)
			if _, err := load(t); err != nil {
				t.Fatalf("%s: %v", token, err)
			}
		}
	}
}

func TestAStoredReportSecretThatIsTooShortIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "report.secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := load(t, "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Migrate: true, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_ = a.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "report.secret: has 1 bytes, fewer than 16; delete the file") {
		t.Errorf("error %v", err)
	}
}
