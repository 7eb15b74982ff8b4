/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compute program on Vulkan: adds 1 to each number of a buffer, as often as it is told.
 *
 *   vulkan_calls
 *
 * Prints "ready PID", then obeys lines on stdin, each answered by a JSON line: "run N" submits the work N times and waits
 * for its fence each time, "idle N" waits for the queue N times, "memory N BYTES" takes and gives back N blocks, "keep
 * BYTES" takes one for good, "direct N" does as run by functions of the driver that vkGetDeviceProcAddr gave; "quit" ends.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <vulkan/vulkan.h>

enum { NUMBERS = 256 };

/*
 * #version 450
 * layout(local_size_x = 64) in;
 * layout(std430, binding = 0) buffer Data { uint v[]; };
 * void main() { v[gl_GlobalInvocationID.x] += 1; }
 */
static const uint32_t shader[] = {
	0x7230203,  0x10000,    0x8000b,    0x1c,    0x0,     0x20011, 0x1,     0x6000b, 0x1,
	0x4c534c47, 0x6474732e, 0x3035342e, 0x0,     0x3000e, 0x0,     0x1,     0x6000f, 0x5,
	0x4,        0x6e69616d, 0x0,        0xf,     0x60010, 0x4,     0x11,    0x40,    0x1,
	0x1,        0x40047,    0x7,        0x6,     0x4,     0x50048, 0x8,     0x0,     0x23,
	0x0,        0x30047,    0x8,        0x3,     0x40047, 0xa,     0x22,    0x0,     0x40047,
	0xa,        0x21,       0x0,        0x40047, 0xf,     0xb,     0x1c,    0x40047, 0x1b,
	0xb,        0x19,       0x20013,    0x2,     0x30021, 0x3,     0x2,     0x40015, 0x6,
	0x20,       0x0,        0x3001d,    0x7,     0x6,     0x3001e, 0x8,     0x7,     0x40020,
	0x9,        0x2,        0x8,        0x4003b, 0x9,     0xa,     0x2,     0x40015, 0xb,
	0x20,       0x1,        0x4002b,    0xb,     0xc,     0x0,     0x40017, 0xd,     0x6,
	0x3,        0x40020,    0xe,        0x1,     0xd,     0x4003b, 0xe,     0xf,     0x1,
	0x4002b,    0x6,        0x10,       0x0,     0x40020, 0x11,    0x1,     0x6,     0x4002b,
	0x6,        0x14,       0x1,        0x40020, 0x15,    0x2,     0x6,     0x4002b, 0x6,
	0x1a,       0x40,       0x6002c,    0xd,     0x1b,    0x1a,    0x14,    0x14,    0x50036,
	0x2,        0x4,        0x0,        0x3,     0x200f8, 0x5,     0x50041, 0x11,    0x12,
	0xf,        0x10,       0x4003d,    0x6,     0x13,    0x12,    0x60041, 0x15,    0x16,
	0xa,        0xc,        0x13,       0x4003d, 0x6,     0x17,    0x16,    0x50080, 0x6,
	0x18,       0x17,       0x14,       0x60041, 0x15,    0x19,    0xa,     0xc,     0x13,
	0x3003e,    0x19,       0x18,       0x100fd, 0x10038,
};

static struct {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	uint32_t family, memory_type;
	VkQueue queue;
	VkBuffer buffer;
	VkDeviceMemory memory;
	uint32_t *numbers;
	VkPipelineLayout layout;
	VkPipeline pipeline;
	VkDescriptorSet set;
	VkCommandBuffer commands;
	VkFence fence;
} v;

#define TRY(call)                                                                                  \
	do {                                                                                       \
		VkResult rc_ = call;                                                               \
		if (rc_) {                                                                         \
			fprintf(stderr, "vulkan_calls: %s: %d\n", #call, rc_);                     \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static bool open_device(void)
{
	const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
					.apiVersion = VK_API_VERSION_1_1 };
	const VkInstanceCreateInfo instance = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
						.pApplicationInfo = &app };
	const float priority = 1;
	VkQueueFamilyProperties families[16];
	uint32_t n = 1, i;

	TRY(vkCreateInstance(&instance, NULL, &v.instance));
	if (vkEnumeratePhysicalDevices(v.instance, &n, &v.physical) < 0 || !n) {
		fprintf(stderr, "vulkan_calls: no device\n");
		return false;
	}
	n = sizeof(families) / sizeof(families[0]);
	vkGetPhysicalDeviceQueueFamilyProperties(v.physical, &n, families);
	for (i = 0; i < n && !(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT); i++)
		;
	v.family = i;

	const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
						.queueFamilyIndex = v.family,
						.queueCount = 1,
						.pQueuePriorities = &priority };
	const VkDeviceCreateInfo device = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
					    .queueCreateInfoCount = 1,
					    .pQueueCreateInfos = &queue };

	TRY(vkCreateDevice(v.physical, &device, NULL, &v.device));
	vkGetDeviceQueue(v.device, v.family, 0, &v.queue);
	return true;
}

static bool make_buffer(void)
{
	const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
					  .size = NUMBERS * sizeof(uint32_t),
					  .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT };
	const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
					     VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties types;
	VkMemoryRequirements need;
	void *at;

	TRY(vkCreateBuffer(v.device, &info, NULL, &v.buffer));
	vkGetBufferMemoryRequirements(v.device, v.buffer, &need);
	vkGetPhysicalDeviceMemoryProperties(v.physical, &types);
	while (v.memory_type < types.memoryTypeCount &&
	       (!(need.memoryTypeBits >> v.memory_type & 1) ||
		(types.memoryTypes[v.memory_type].propertyFlags & wanted) != wanted))
		v.memory_type++;

	const VkMemoryAllocateInfo block = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
					     .allocationSize = need.size,
					     .memoryTypeIndex = v.memory_type };

	TRY(vkAllocateMemory(v.device, &block, NULL, &v.memory));
	TRY(vkBindBufferMemory(v.device, v.buffer, v.memory, 0));
	TRY(vkMapMemory(v.device, v.memory, 0, VK_WHOLE_SIZE, 0, &at));
	v.numbers = at;
	memset(at, 0, NUMBERS * sizeof(uint32_t));
	return true;
}

static bool make_pipeline(void)
{
	const VkDescriptorSetLayoutBinding binding = { .descriptorType =
							       VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
						       .descriptorCount = 1,
						       .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT };
	const VkDescriptorSetLayoutCreateInfo sets = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 1,
		.pBindings = &binding
	};
	const VkShaderModuleCreateInfo code = { .sType =
							VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
						.codeSize = sizeof(shader),
						.pCode = shader };
	const VkDescriptorPoolSize size = { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1 };
	const VkDescriptorPoolCreateInfo pools = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = 1,
		.poolSizeCount = 1,
		.pPoolSizes = &size
	};
	const VkDescriptorBufferInfo buffer = { v.buffer, 0, VK_WHOLE_SIZE };
	VkDescriptorSetLayout set_layout;
	VkShaderModule module;
	VkDescriptorPool pool;

	TRY(vkCreateDescriptorSetLayout(v.device, &sets, NULL, &set_layout));

	const VkPipelineLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &set_layout
	};

	TRY(vkCreatePipelineLayout(v.device, &layout, NULL, &v.layout));
	TRY(vkCreateShaderModule(v.device, &code, NULL, &module));

	const VkComputePipelineCreateInfo pipeline = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
			   .module = module,
			   .pName = "main" },
		.layout = v.layout
	};

	TRY(vkCreateComputePipelines(v.device, VK_NULL_HANDLE, 1, &pipeline, NULL, &v.pipeline));
	TRY(vkCreateDescriptorPool(v.device, &pools, NULL, &pool));

	const VkDescriptorSetAllocateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorPool = pool,
		.descriptorSetCount = 1,
		.pSetLayouts = &set_layout
	};

	TRY(vkAllocateDescriptorSets(v.device, &set, &v.set));

	const VkWriteDescriptorSet write = { .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
					     .dstSet = v.set,
					     .descriptorCount = 1,
					     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
					     .pBufferInfo = &buffer };

	vkUpdateDescriptorSets(v.device, 1, &write, 0, NULL);
	return true;
}

static bool record_commands(void)
{
	const VkCommandPoolCreateInfo pools = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
						.queueFamilyIndex = v.family };
	const VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
	};
	const VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
	VkCommandPool pool;

	TRY(vkCreateCommandPool(v.device, &pools, NULL, &pool));

	const VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1
	};

	TRY(vkAllocateCommandBuffers(v.device, &info, &v.commands));
	TRY(vkBeginCommandBuffer(v.commands, &begin));
	vkCmdBindPipeline(v.commands, VK_PIPELINE_BIND_POINT_COMPUTE, v.pipeline);
	vkCmdBindDescriptorSets(v.commands, VK_PIPELINE_BIND_POINT_COMPUTE, v.layout, 0, 1, &v.set,
				0, NULL);
	vkCmdDispatch(v.commands, NUMBERS / 64, 1, 1);
	TRY(vkEndCommandBuffer(v.commands));
	TRY(vkCreateFence(v.device, &fence, NULL, &v.fence));
	return true;
}

static bool run(long n, bool direct)
{
	const VkSubmitInfo submit = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
				      .commandBufferCount = 1,
				      .pCommandBuffers = &v.commands };
	PFN_vkQueueSubmit queue_submit = vkQueueSubmit;
	PFN_vkWaitForFences wait_for_fences = vkWaitForFences;

	if (direct) {
		queue_submit = (PFN_vkQueueSubmit)vkGetDeviceProcAddr(v.device, "vkQueueSubmit");
		wait_for_fences =
			(PFN_vkWaitForFences)vkGetDeviceProcAddr(v.device, "vkWaitForFences");
	}
	for (long i = 0; i < n; i++) {
		TRY(queue_submit(v.queue, 1, &submit, v.fence));
		TRY(wait_for_fences(v.device, 1, &v.fence, VK_TRUE, UINT64_MAX));
		TRY(vkResetFences(v.device, 1, &v.fence));
	}
	printf("{\"runs\": %ld, \"number\": %u}\n", n, v.numbers[NUMBERS - 1]);
	return true;
}

static bool memory(long n, unsigned long long bytes, bool keep)
{
	const VkMemoryAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
					    .allocationSize = bytes,
					    .memoryTypeIndex = v.memory_type };

	for (long i = 0; i < n; i++) {
		VkDeviceMemory block;

		TRY(vkAllocateMemory(v.device, &info, NULL, &block));
		if (!keep)
			vkFreeMemory(v.device, block, NULL);
	}
	printf("{\"blocks\": %ld}\n", n);
	return true;
}

static bool obey(const char *line)
{
	unsigned long long bytes;
	long n;

	if (sscanf(line, "run %ld", &n) == 1)
		return run(n, false);
	if (sscanf(line, "direct %ld", &n) == 1)
		return run(n, true);
	if (sscanf(line, "memory %ld %llu", &n, &bytes) == 2)
		return memory(n, bytes, false);
	if (sscanf(line, "keep %llu", &bytes) == 1)
		return memory(1, bytes, true);
	if (sscanf(line, "idle %ld", &n) == 1) {
		for (long i = 0; i < n; i++)
			TRY(vkQueueWaitIdle(v.queue));
		printf("{\"idle\": %ld}\n", n);
		return true;
	}
	fprintf(stderr, "vulkan_calls: cannot obey %s", line);
	return false;
}

int main(void)
{
	char line[256];

	if (!open_device() || !make_buffer() || !make_pipeline() || !record_commands())
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n")) {
		if (!obey(line))
			return 1;
		fflush(stdout);
	}
	return 0;
}
