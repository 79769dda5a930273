package ratelimit

// Owners is the number of owners in memory.
func (l *Limiter) Owners() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.Len()
}
