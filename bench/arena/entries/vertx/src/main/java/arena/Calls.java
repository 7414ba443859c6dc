package arena;

import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.grpc.server.GrpcServer;
import io.vertx.grpc.server.GrpcServerRequest;
import io.vertx.grpc.server.GrpcServerResponse;

/** benchmark.BenchmarkService: GetSum and StreamSum. Its messages are a few numbers, so no code is generated for them. */
final class Calls {
  private Calls() {}

  static GrpcServer server(Vertx vertx) {
    return GrpcServer.server(vertx).callHandler(Calls::call);
  }

  private static void call(GrpcServerRequest<Buffer, Buffer> request) {
    boolean isStream = request.methodName().equals("StreamSum");
    request.handler(message -> {
      int[] numbers = numbers(message);
      int sum = numbers[0] + numbers[1];
      if (isStream) {
        stream(request.response(), sum, 0, Math.max(1, numbers[2]));
      } else {
        request.response().end(message(sum));
      }
    });
  }

  /** Writes as long as the client takes messages, and goes on when it does again. */
  private static void stream(GrpcServerResponse<Buffer, Buffer> response, int sum, int from, int count) {
    int index = from;
    while (index < count && !response.writeQueueFull()) {
      response.write(message(sum + index));
      index++;
    }
    if (index == count) {
      response.end();
    } else {
      int next = index;
      response.drainHandler(nothing -> stream(response, sum, next, count));
    }
  }

  /** The fields 1 to 3 of a message, which are numbers. */
  private static int[] numbers(Buffer message) {
    int[] found = new int[3];
    int index = 0;
    while (index < message.length()) {
      int field = (message.getByte(index++) >> 3) - 1;
      long value = 0;
      int shift = 0;
      byte digit;
      do {
        digit = message.getByte(index++);
        value |= (long) (digit & 0x7F) << shift;
        shift += 7;
      } while (digit < 0);
      found[field] = (int) value;
    }
    return found;
  }

  private static Buffer message(int number) {
    Buffer message = Buffer.buffer(12);
    if (number == 0) {
      return message;
    }
    message.appendByte((byte) 8);
    long rest = number; // negative numbers have ten bytes
    while ((rest & ~0x7FL) != 0) {
      message.appendByte((byte) (rest | 0x80));
      rest >>>= 7;
    }
    return message.appendByte((byte) rest);
  }
}
