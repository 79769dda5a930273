package launcher

// growStack has the stack of a goroutine grow once, to 16 KiB, while it is nearly
// empty: a start needs so much of it, and growing step by step copied it four
// times, the last time between fire_at and the executor's call.
//
//go:noinline
func growStack() byte {
	var room [7 << 10]byte
	return room[len(room)-int(room[0])-1]
}

// keepStack has so much of the stack in use while run waits for its instant that
// the collector, which halves stacks of which less than a quarter is, leaves it.
//
//go:noinline
func keepStack(run func()) byte {
	var room [4 << 10]byte
	run()
	return room[len(room)-int(room[0])-1]
}
