package kafka

import (
	"testing"

	"odradek/processor/brokertest"
)

func TestMain(m *testing.M) { brokertest.Main(m) }
