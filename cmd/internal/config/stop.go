package config

import "odradek/processor/cycle"

// StopAbove returns the bound of ODRADEK_STOP_ABOVE on a partition's dead letters.
func (c *Config) StopAbove() cycle.DeadLetterLimit {
	limit, _ := cycle.ParseDeadLetterLimit(c.Mapping.StopAbove)
	return limit
}

func (ch *checker) stop() {
	limit, err := cycle.ParseDeadLetterLimit(ch.c.Mapping.StopAbove)
	if err != nil {
		ch.add("STOP_ABOVE", err.Error(), "write it like 0.5/1000, or off")
	}
	if ch.ok("STOP_ABOVE", "FEEDBACK_TOPIC") && limit.Of > 0 && ch.c.Detect.Feedback == Off {
		ch.add("FEEDBACK_TOPIC", "off, but worker state resume writes there that a partition paused by "+Prefix+"STOP_ABOVE goes on",
			"name a topic, or unset it")
	}
}
