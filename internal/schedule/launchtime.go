package schedule

import "time"

// Later is the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// LaunchUntil is the end of the launch time of a run that is claimed at now:
// LaunchFor after its fire time. A run that is claimed later (it waited for its
// overlap key, or no worker led) has the same time from its claim on, because grace
// and overlap policy have already decided that it is not too late.
func LaunchUntil(d *Definition, fireAt, now time.Time, retryFor time.Duration) time.Time {
	return Later(fireAt, now).Add(LaunchFor(d, retryFor))
}

// LaunchFor is how long the launch of a run is tried: the launch timeout of its
// schedule, else retryFor.
func LaunchFor(d *Definition, retryFor time.Duration) time.Duration {
	if d.LaunchTimeoutMS > 0 {
		return d.LaunchTimeout()
	}
	return retryFor
}
