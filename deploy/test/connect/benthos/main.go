// Command benthos is Benthos 4.27, Redpanda Connect under its earlier name, with the components that deploy/connect/redpanda uses. Its
// Kafka input is the real one: the one of Redpanda Connect is in a module with drivers of hundreds of systems.
package main

import (
	"context"

	_ "github.com/benthosdev/benthos/v4/public/components/io"
	_ "github.com/benthosdev/benthos/v4/public/components/kafka"
	_ "github.com/benthosdev/benthos/v4/public/components/pure"
	"github.com/benthosdev/benthos/v4/public/service"
)

func main() { service.RunCLI(context.Background()) }
