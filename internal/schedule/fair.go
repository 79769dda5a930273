package schedule

// fairShare is how many times what is free one owner may hold. Whatever an
// owner asks for, a tenth stays free for the others, and shrinks only as they
// come: a dynamic threshold (Choudhury and Hahne, 1998), which needs to know
// neither who will come nor how many.
const fairShare = 9

// FairRoom is how many more an owner may have who has own, where free are left:
// the greatest n with own + n <= fairShare × (free − n). Who has none may have
// one all the same: in a small pool the share is less than that.
func FairRoom(own, free int) int {
	n := (fairShare*free - own) / (fairShare + 1)
	if own == 0 && free > 0 {
		n = max(n, 1)
	}
	return max(n, 0)
}
