package schedule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// ReportToken authorizes an executor to report on the run with this key only: an HMAC-SHA256 of
// the key, so that nothing is stored.
func ReportToken(secret []byte, key Key) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("report:"))
	mac.Write(key[:])
	return hex.EncodeToString(mac.Sum(nil))
}

// CheckReportToken compares in constant time.
func CheckReportToken(secret []byte, key Key, token string) bool {
	return hmac.Equal([]byte(ReportToken(secret, key)), []byte(token))
}
