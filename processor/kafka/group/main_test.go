package group

import (
	"testing"

	"odradek/processor/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
