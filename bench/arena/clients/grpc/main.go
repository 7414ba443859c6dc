// Command grpc calls the arena's service with gRPC's own client for Go and checks the answers. Usage: grpc ADDRESS
// GetSum|StreamSum [tls]. It fails with a message unless all answers are right. Over TLS it trusts everybody.
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const service = "/benchmark.BenchmarkService/"

// numbers is a message of protobuf whose fields 1, 2, ... are these numbers. So no code must be generated.
type numbers []uint64

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(value any) ([]byte, error) {
	var out []byte
	for index, number := range *value.(*numbers) {
		out = binary.AppendUvarint(out, uint64(index+1)<<3)
		out = binary.AppendUvarint(out, number)
	}
	return out, nil
}

func (codec) Unmarshal(data []byte, value any) error {
	found := numbers{0}
	if len(data) > 0 {
		number, size := binary.Uvarint(data[1:])
		if data[0] != 8 || size <= 0 {
			return fmt.Errorf("a message is %x", data)
		}
		found[0] = number
	}
	*value.(*numbers) = found
	return nil
}

func getSum(ctx context.Context, connection *grpc.ClientConn, number uint64) error {
	answer := numbers{}
	if err := connection.Invoke(ctx, service+"GetSum", &numbers{number, 2 * number}, &answer); err != nil {
		return err
	}
	if answer[0] != 3*number {
		return fmt.Errorf("the sum of %d and %d is %d", number, 2*number, answer[0])
	}
	return nil
}

func streamSum(ctx context.Context, connection *grpc.ClientConn, number uint64) error {
	const count = 5000
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, service+"StreamSum")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&numbers{number, number, count}); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for index := uint64(0); ; index++ {
		answer := numbers{}
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) && index == count {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d answers: %w", index, err)
		}
		if answer[0] != 2*number+index {
			return fmt.Errorf("answer %d of the stream is %d", index, answer[0])
		}
	}
}

// run makes calls, some of them at once, and returns the first failure.
func run(call func(uint64) error, calls, atOnce int) error {
	var group sync.WaitGroup
	failures := make(chan error, calls)
	slots := make(chan struct{}, atOnce)
	for number := 1; number <= calls; number++ {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			if err := call(uint64(number)); err != nil {
				failures <- err
			}
			<-slots
		}()
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: grpc ADDRESS GetSum|StreamSum [tls]")
		os.Exit(2)
	}
	security := insecure.NewCredentials()
	if len(os.Args) > 3 {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	if err == nil && os.Args[2] == "StreamSum" {
		err = run(func(number uint64) error { return streamSum(ctx, connection, number) }, 10, 10)
	} else if err == nil {
		err = run(func(number uint64) error { return getSum(ctx, connection, number) }, 1000, 50)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
